// Starts the ranks of a world on several hosts, and waits for them (`lsched run --hosts`).
#pragma once

#include <vector>

#include "bindings/cli/common/launcher.h"
#include "bindings/cli/hosts/host_list.h"

namespace lsched::cli {

/// Starts an agent (agent.h) on each host, and waits until all ranks have ended. Forwards the output of the ranks line
/// by line, and standard input to rank 0. Forwards SIGINT, SIGTERM and SIGHUP to all ranks, unless this process ignores
/// the signal. If a rank fails or a connection ends, the other ranks continue, as with launch(). Returns the status
/// that launch() would return. Throws command_failure if the agents cannot be started. The calling process must have
/// only one thread.
int launch_on_hosts(const std::vector<host>& hosts, const launch_request& request);

}  // namespace lsched::cli
