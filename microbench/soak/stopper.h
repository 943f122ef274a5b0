// Stops and continues this process at random times. A scheduler, a debugger or a hypervisor does the same to ranks, but
// less often.
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
  /// Starts the child, which waits for begin(). The process must have only one thread. Throws command_failure.
  stopper();

  /// Ends the child.
  ~stopper();
  stopper(const stopper&) = delete;
  stopper& operator=(const stopper&) = delete;

  /// Starts to stop this process after exponentially distributed times of the given mean, for 0.2 to 20 ms each. The
  /// drawn times depend only on the seed.
  void begin(double mean_ms, std::uint64_t seed);

  /// Ends the stops. Returns their number.
  std::uint64_t end();

 private:
  int orders_ = -1;  ///< this process's end of the pipe
  pid_t child_ = -1;
  std::atomic<std::uint64_t>* stops_;  ///< shared with the child
};

}  // namespace lsched::cli
