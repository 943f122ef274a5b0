// The signals for which the launcher waits.
#pragma once

#include <signal.h>

#include <chrono>
#include <optional>

namespace lsched::cli {

/// With this signal, the agent of a host (`lsched run --agent`) asks its launcher to end all ranks.
inline constexpr int k_end_ranks = SIGUSR1;

/// Blocks the signals for which the launcher waits. restore() unblocks them. Each rank calls restore() before its
/// program starts, and the destructor calls it in the launcher.
class signal_gate {
 public:
  /// If `waits_for_end` is true, the launcher also waits for k_end_ranks.
  explicit signal_gate(bool waits_for_end) {
    sigemptyset(&waited_);
    for (const int number : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) sigaddset(&waited_, number);
    if (waits_for_end) sigaddset(&waited_, k_end_ranks);
    signal(SIGCHLD, SIG_DFL);  // if a parent has set SIGCHLD to be ignored, waitpid would not report ended children
    sigprocmask(SIG_BLOCK, &waited_, &before_);
  }
  ~signal_gate() { restore(); }
  signal_gate(const signal_gate&) = delete;
  signal_gate& operator=(const signal_gate&) = delete;

  void restore() const { sigprocmask(SIG_SETMASK, &before_, nullptr); }

  /// Returns the next signal, or nothing after `deadline`. One SIGCHLD may stand for several ended children.
  std::optional<siginfo_t> next(std::optional<std::chrono::steady_clock::time_point> deadline) const {
    using namespace std::chrono_literals;
    using clock = std::chrono::steady_clock;
    for (;;) {
      siginfo_t news{};
      const clock::duration left = deadline ? *deadline - clock::now() : clock::duration(1h);
      const auto whole = std::chrono::floor<std::chrono::seconds>(left);
      const timespec limit{.tv_sec = whole.count(), .tv_nsec = std::chrono::nanoseconds(left - whole).count()};
      if (left >= 0s && sigtimedwait(&waited_, &news, &limit) > 0) return news;
      if (deadline && clock::now() >= *deadline) return std::nullopt;
    }
  }

 private:
  sigset_t waited_{};
  sigset_t before_{};
};

}  // namespace lsched::cli
