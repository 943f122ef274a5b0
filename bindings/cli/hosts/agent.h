// `lsched run --agent`: starts the ranks of one host for `lsched run --hosts`, and relays their streams and exchanges.
//
//      command ◄─frames─► agent ── pipes: input, output, errors, ends of ranks ── launcher (launcher.h) ── ranks
//                           └───── sockets: exchanges (offload/open/launch_exchange.h) ──────────────────────┘
//
// The launcher is a child process in a separate process group. So a signal from the terminal reaches the ranks only
// once, through the command. If the connection to the command ends, the agent asks the launcher to end all ranks. If
// the agent is killed, the kernel kills the launcher, and therefore the ranks.
#pragma once

namespace lsched::cli {

/// Runs the agent until its ranks have ended. Returns the exit status of the process.
int run_agent();

}  // namespace lsched::cli
