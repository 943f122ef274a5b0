// Starts the ranks of a world on this machine, and waits for them.
//
// The contract with lsched_world_open: each rank inherits the descriptor of a shared segment and finds in
// its environment that descriptor's number, its rank and the number of ranks. There are no names, no files
// and no network.
//
// Ranks die with the launcher, however that ends, also those that a wrapper script has started:
//
//   the launcher ends     processes that ranks have left behind are its children (PR_SET_CHILD_SUBREAPER): it ends
//                         them when the last rank has ended, and then itself
//   the launcher is gone  its children are killed (PR_SET_PDEATHSIG), and so is every process that has opened a world:
//                         each rank inherits the reading end of a pipe of its own, to which nobody else than the
//                         launcher can write; the process that opens the world becomes the owner (F_SETOWN) of that
//                         end, and so gets the signal SIGKILL (F_SETSIG, O_ASYNC) once the writing end is closed
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lsched::cli {

/// The exit status that timeout(1) has, too.
inline constexpr int k_exit_timeout = 124;

struct launch_request {
  std::int32_t ranks = 1;
  std::string path;                                ///< of the program, to be executed as it is
  std::vector<std::string> words;                  ///< its arguments, its name first
  std::string title = "lsched run";                ///< begins each line the launcher prints
  std::optional<std::chrono::milliseconds> limit;  ///< after it, what is left is killed
  std::int32_t start_timeout_s = 0;                ///< for which ranks wait until all have opened; 0: as they are set
  bool bind = false;                               ///< rank r to the r-th core this process may use, round robin
  bool prepends_rank = false;                      ///< "R: " before each line that rank R writes
};

/// Starts all ranks and waits for all of them. Standard input goes to rank 0. SIGINT, SIGTERM and SIGHUP are
/// passed on to the ranks; one line on standard error tells of each rank that fails, and of one that ended well in a
/// world that it had not closed, if others fail. What ranks have left behind when the last of them ends has a second to
/// end by itself, and another one after SIGTERM.
///
/// Returns 0 if all ranks exit with 0, else the status of the rank that failed first, 128 + n for death by signal n;
/// k_exit_timeout if none had failed when the limit passed; the status of refuse_program (executable.h) if the system
/// does not execute the program. Throws command_failure if the ranks cannot be started for another reason. Ranks that
/// were started are gone in both cases. Call it from a process with one thread.
int launch(const launch_request& request);

}  // namespace lsched::cli
