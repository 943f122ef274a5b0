// Starts the ranks of a world on this machine, and waits for them.
//
// The launcher has this contract with lsched_world_open. Each rank inherits the descriptor of a shared segment. If the
// world has ranks on other hosts, each rank inherits the descriptor of a socket instead
// (offload/open/launch_exchange.h). Environment variables contain the number of the descriptor, the rank, and the
// number of ranks.
//
// When the launcher ends, all ranks end, even if the launcher was killed. Ranks that a wrapper script has started end,
// too. There are two cases:
//
//  - The launcher exits. Processes that ranks have left behind become children of the launcher
//    (PR_SET_CHILD_SUBREAPER). The launcher ends them after the last rank has ended.
//  - The launcher is killed. The kernel kills the children of the launcher (PR_SET_PDEATHSIG), and every process that
//    has opened a world. Each rank inherits the read end of a separate pipe, and only the launcher has the write end.
//    The process that opens the world becomes the owner (F_SETOWN) of the read end. The kernel sends SIGKILL to the
//    owner (F_SETSIG, O_ASYNC) once the write end is closed.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace lsched::cli {

/// The exit status of timeout(1) when the time limit has passed.
inline constexpr int k_exit_timeout = 124;

/// The part of a world over several hosts whose ranks run on this machine (`lsched run --hosts`).
struct host_part {
  std::int32_t first = 0;           ///< the lowest rank of this part
  std::int32_t ranks_of_world = 1;  ///< number of ranks of all parts
  std::vector<int> exchanges;       ///< the socket of each rank, inherited in place of the shared segment
  std::string master;               ///< MASTER_ADDR and MASTER_PORT of all ranks
  std::uint16_t master_port = 0;
  std::function<void(std::int32_t rank, int wait_status)> report;  ///< called when a rank has ended
};

struct launch_request {
  std::int32_t ranks = 1;
  std::string path;                                ///< executable file of the program
  std::vector<std::string> words;                  ///< arguments of the program, its name first
  std::string title = "lsched run";                ///< beginning of each line that the launcher prints
  std::optional<std::chrono::milliseconds> limit;  ///< time limit, after which the launcher kills the remaining ranks
  std::int32_t start_timeout_s = 0;  ///< time in which all ranks must open their world; 0: from the environment
  bool bind = false;                 ///< binds each rank to one of the cores that this process may use, round robin
  bool prepends_rank = false;        ///< writes "R: " before each line of rank R
  std::optional<host_part> part{};   ///< if set, the signal k_end_ranks (signal_gate.h) ends all ranks
};

/// Returns the highest free port of this machine between `first` and `last`, or 0 if there is no free port. If both are
/// 0, returns any free port.
std::uint16_t find_free_port(std::uint16_t first = 0, std::uint16_t last = 0);

/// Starts all ranks and waits for all of them. Standard input goes to rank 0. SIGINT, SIGTERM and SIGHUP are passed on
/// to the ranks. Prints a line on standard error for each rank that fails. If any rank fails, also prints a line for
/// each rank that exited with status 0 without closing its world. After the last rank has ended, processes that ranks
/// have left behind get a second to end by themselves, and another second after SIGTERM.
///
/// Returns one of these statuses:
///  - 0: all ranks have exited with 0.
///  - 128 + n: signals have killed ranks before the limit. The first of these ranks was killed by signal n.
///  - k_exit_timeout: no rank had failed when the limit passed.
///  - The status of refuse_program (executable.h): the system does not execute the program.
///  - Any other status: the status of the rank that failed first.
///
/// Throws command_failure if the ranks cannot be started for another reason. No rank runs when this function returns or
/// throws. The calling process must have only one thread.
int launch(const launch_request& request);

}  // namespace lsched::cli
