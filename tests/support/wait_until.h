// Functions by which a test waits for an event in another thread or process.
#pragma once

#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <chrono>

namespace lsched::testing {

/// Evaluates the condition until it holds. Returns false if the condition does not hold within `limit`. Between two
/// evaluations, other threads and processes get the core. To test that an event does not happen, expect false with a
/// short limit.
template <class Condition>
bool wait_until(Condition&& condition, std::chrono::nanoseconds limit = std::chrono::seconds(20)) {
  for (const auto deadline = std::chrono::steady_clock::now() + limit; !condition(); sched_yield())
    if (std::chrono::steady_clock::now() > deadline) return false;
  return true;
}

/// Waits for the end of a child process. Returns false if the process still runs after `limit`. If the process has
/// ended, waitpid() does not block.
inline bool wait_for_end(pid_t child, std::chrono::milliseconds limit) {
  pollfd end{static_cast<int>(syscall(SYS_pidfd_open, child, 0)), POLLIN, 0};
  const int answer = poll(&end, 1, static_cast<int>(limit.count()));
  close(end.fd);
  return answer != 0;
}

}  // namespace lsched::testing
