// Sets the time limit of a program that mpiexec starts. The limit ends a rank that hangs, even if mpiexec has died.
#pragma once

#include <unistd.h>

#include <csignal>
#include <cstdlib>

namespace lsched::testing {

/// Ends this process with status 124 after 10 minutes, or after almost 4 hours if the full test matrices run. On an
/// idle machine, programs need only a small part of this time.
inline void limit_this_process() {
  std::signal(SIGALRM, [](int) {
    constexpr char k_text[] = "the time limit of this rank has passed\n";
    if (write(STDERR_FILENO, k_text, sizeof k_text - 1) < 0) _exit(125);
    _exit(124);
  });
  alarm(std::getenv("LSCHED_TEST_FULL") != nullptr ? 14'000 : 600);
}

}  // namespace lsched::testing
