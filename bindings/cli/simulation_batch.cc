#include "bindings/cli/simulation_batch.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <optional>
#include <thread>

#include "bindings/cli/commands.h"

namespace lsched::cli {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

/// What the workers share; everything is under the lock.
class batch {
 public:
  batch(const std::vector<simulation_task>& tasks,
        const std::function<void(std::size_t, const simulation_report&)>& done, bool is_quiet)
      : tasks_(tasks), done_(done), is_quiet_(is_quiet || isatty(STDERR_FILENO) == 0) {}

  void work() {
    while (const auto task = take()) {
      std::uint64_t told = 0;
      const auto report = tasks_[*task]([&](std::uint64_t messages) {
        tell(messages - told);
        told = messages;
      });
      finish(*task, report);
    }
  }

  void conclude() const {
    if (was_told_) std::fprintf(stderr, "\r\033[K");
    if (failure_) throw command_failure(*failure_);
  }

 private:
  std::optional<std::size_t> take() {
    const std::lock_guard hold(lock_);
    if (failure_ || next_ == tasks_.size()) return std::nullopt;
    return next_++;
  }

  void finish(std::size_t task, const result<simulation_report>& report) {
    const std::lock_guard hold(lock_);
    ++finished_;
    if (report)
      done_(task, *report);
    else if (!failure_)
      failure_ = report.error();
    show();
  }

  void tell(std::uint64_t messages) {
    const std::lock_guard hold(lock_);
    messages_ += messages;
    show();
  }

  // Short work says nothing.
  void show() {
    const auto now = clock::now();
    if (is_quiet_ || now < next_line_) return;
    next_line_ = now + 200ms;
    was_told_ = true;
    std::fprintf(stderr, "\r\033[Ksimulating: %zu of %zu done, %.1f M messages", finished_, tasks_.size(),
                 static_cast<double>(messages_) / 1e6);
  }

  const std::vector<simulation_task>& tasks_;
  const std::function<void(std::size_t, const simulation_report&)>& done_;
  const bool is_quiet_;
  std::mutex lock_;
  std::size_t next_ = 0, finished_ = 0;
  std::uint64_t messages_ = 0;
  std::optional<failure> failure_;
  clock::time_point next_line_ = clock::now() + 1s;
  bool was_told_ = false;
};

}  // namespace

void run_batch(const std::vector<simulation_task>& tasks,
               const std::function<void(std::size_t, const simulation_report&)>& done, bool is_quiet) {
  batch all(tasks, done, is_quiet);
  {
    const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
    std::vector<std::jthread> helpers;
    for (std::size_t i = 1; i < std::min(cores, tasks.size()); ++i) helpers.emplace_back([&all] { all.work(); });
    all.work();
  }
  all.conclude();
}

}  // namespace lsched::cli
