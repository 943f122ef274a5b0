#include "bindings/cli/simulation_batch.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <mutex>
#include <utility>

#include "bindings/cli/errors.h"
#include "bindings/cli/parallel.h"

namespace lsched::cli {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

/// The line that moves on standard error.
class progress_line {
 public:
  progress_line(std::size_t tasks, bool is_quiet) : tasks_(tasks), is_quiet_(is_quiet || isatty(STDERR_FILENO) == 0) {}
  ~progress_line() { clear(); }

  void add_messages(std::uint64_t messages) {
    const std::lock_guard hold(lock_);
    messages_ += messages;
    show();
  }

  void finish_task() {
    const std::lock_guard hold(lock_);
    ++finished_;
    show();
  }

  /// For others to write.
  void clear() {
    const std::lock_guard hold(lock_);
    if (std::exchange(is_shown_, false)) std::fprintf(stderr, "\r\033[K");
  }

 private:
  // Short work says nothing.
  void show() {
    const auto now = clock::now();
    if (is_quiet_ || now < next_) return;
    next_ = now + 200ms;
    is_shown_ = true;
    std::fprintf(stderr, "\r\033[Ksimulating: %zu of %zu done, %.1f M messages", finished_, tasks_,
                 static_cast<double>(messages_) / 1e6);
  }

  const std::size_t tasks_;
  const bool is_quiet_;
  std::mutex lock_;
  std::size_t finished_ = 0;
  std::uint64_t messages_ = 0;
  clock::time_point next_ = clock::now() + 1s;
  bool is_shown_ = false;
};

}  // namespace

void run_batch(const std::vector<simulation_task>& tasks,
               const std::function<void(std::size_t, const simulation_report&)>& done, bool is_quiet) {
  progress_line line(tasks.size(), is_quiet);
  in_order(
      tasks.size(),
      [&](std::size_t i) {
        return require(tasks[i]([&, told = std::uint64_t{0}](std::uint64_t messages) mutable {
          line.add_messages(messages - std::exchange(told, messages));
        }));
      },
      [&](std::size_t i, const simulation_report& report) {
        line.clear();
        done(i, report);
        line.finish_task();
      });
}

}  // namespace lsched::cli
