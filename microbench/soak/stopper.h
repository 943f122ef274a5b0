// Stops and continues this process at random times, as a scheduler, a debugger or a hypervisor sometimes does.
//
// A stopped process cannot continue itself. Therefore a child stops and continues the process, and a grandchild guards
// the child:
//
//     rank ◄── SIGSTOP, SIGCONT ── stopper ── (pipe) ──► guard
//      │                              ▲                    │
//      └── seed, end (pipe) ──────────┘     stopper gone: SIGCONT to the rank
//
// The stopper dies with the rank (PR_SET_PDEATHSIG), and the guard ends with the stopper. If any of the three is
// killed, no process stays stopped. Stopper and guard refer to the rank by a pidfd, so a reused process id never gets a
// signal.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>

namespace lsched::cli {

class stopper {
 public:
  /// Starts the stopper process, which then waits for begin(). The calling process must have only one thread. Throws
  /// command_failure.
  stopper();

  /// Ends the stopper process.
  ~stopper();
  stopper(const stopper&) = delete;
  stopper& operator=(const stopper&) = delete;

  /// Makes the stopper stop this process repeatedly, each time for 0.2 to 20 ms. The times between stops are
  /// exponentially distributed with mean `mean_ms`. All drawn times depend only on the seed.
  void begin(double mean_ms, std::uint64_t seed);

  /// Ends the stops. Returns the number of stops.
  std::uint64_t end();

 private:
  int orders_ = -1;  ///< this process's end of the pipe
  pid_t child_ = -1;
  std::atomic<std::uint64_t>* stops_;  ///< counter in memory that is shared with the stopper
};

}  // namespace lsched::cli
