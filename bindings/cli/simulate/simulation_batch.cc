#include "bindings/cli/simulate/simulation_batch.h"

#include <array>
#include <cstdio>
#include <mutex>
#include <utility>

#include "bindings/cli/common/errors.h"
#include "bindings/cli/common/parallel.h"
#include "bindings/progress_line.h"

namespace lsched::cli {
namespace {

/// What all tasks together have done.
struct batch_counts {
  std::size_t tasks = 0, finished = 0;
  std::uint64_t messages = 0;
  std::mutex lock{};

  std::string words() const {
    std::array<char, 100> line{};
    std::snprintf(line.data(), line.size(), "simulating: %zu of %zu done, %.1f M messages", finished, tasks,
                  static_cast<double>(messages) / 1e6);
    return line.data();
  }
};

}  // namespace

void run_batch(const std::vector<simulation_task>& tasks,
               const std::function<void(std::size_t, const simulation_report&)>& done) {
  batch_counts counts{.tasks = tasks.size()};
  progress_line line;
  const auto add = [&](std::size_t finished, std::uint64_t messages) {
    const std::lock_guard held(counts.lock);
    counts.finished += finished;
    counts.messages += messages;
    line.show([&] { return counts.words(); });
  };
  in_order(
      tasks.size(),
      [&](std::size_t i) {
        return require(tasks[i]([&, told = std::uint64_t{0}](std::uint64_t messages) mutable {
          add(0, messages - std::exchange(told, messages));
        }));
      },
      [&](std::size_t i, const simulation_report& report) {
        {
          const auto held = line.erase();
          done(i, report);
        }
        add(1, 0);
      });
}

}  // namespace lsched::cli
