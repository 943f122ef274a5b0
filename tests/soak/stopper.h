// Stops this process at random, and continues it: what a scheduler, a debugger or a hypervisor does to ranks now and
// then, only more often.
//
// A stopped process can do nothing for itself, so a child does it, and a child of that child watches over it:
//
//     rank ◄── SIGSTOP, SIGCONT ── stopper ── (pipe) ──► guard
//      │                              ▲                    │
//      └── seed, end (pipe) ──────────┘     stopper gone: SIGCONT to the rank
//
// The stopper dies with the rank (PR_SET_PDEATHSIG), the guard ends with the stopper; whichever one of the three is
// killed, nobody is left stopped. Both know the rank by a pidfd, so neither ever signals a stranger.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>

namespace lsched::cli {

class stopper {
 public:
  /// Starts the child, which waits. Call it while the process has one thread. Throws command_failure.
  stopper();

  /// Ends the child.
  ~stopper();
  stopper(const stopper&) = delete;
  stopper& operator=(const stopper&) = delete;

  /// From now on this process is stopped after exponentially distributed times of that mean, each time for 0.2 to
  /// 20 ms; a function of the seed, as far as times are.
  void begin(double mean_ms, std::uint64_t seed);

  /// No more stops; answers how many there were.
  std::uint64_t end();

 private:
  int orders_ = -1;  ///< this process's end of the pipe
  pid_t child_ = -1;
  std::atomic<std::uint64_t>* stops_;  ///< shared with the child
};

}  // namespace lsched::cli
