#include "bindings/cli/simulate/batch.h"

#include <array>
#include <atomic>
#include <cstdio>
#include <utility>

#include "bindings/cli/common/errors.h"
#include "bindings/cli/common/parallel.h"
#include "bindings/progress_line.h"

namespace lsched::cli {

void run_batch(std::size_t count,
               const std::function<result<simulation_report>(std::size_t, const simulation_progress&)>& simulate,
               const std::function<void(std::size_t, const simulation_report&)>& done) {
  std::atomic<std::size_t> finished = 0;
  std::atomic<std::uint64_t> messages = 0;
  progress_line line;
  const auto show = [&] {
    line.show([&] {
      std::array<char, 100> text{};
      std::snprintf(text.data(), text.size(), "simulating: %zu of %zu done, %.1f M messages", finished.load(), count,
                    static_cast<double>(messages.load()) / 1e6);
      return std::string(text.data());
    });
  };
  const auto job = [&](std::size_t i) {
    return require(simulate(i, [&, told = std::uint64_t{0}](std::uint64_t now) mutable {
      messages += now - std::exchange(told, now);
      show();
    }));
  };
  in_order(count, job, [&](std::size_t i, const simulation_report& report) {
    {
      const auto held = line.erase();
      done(i, report);
    }
    ++finished;
    show();
  });
}

result<packed_world> packed_in_parallel(rank size, const std::function<result<schedule_ptr>(world)>& generate) {
  constexpr rank k_batch = 256;
  packed_world all(size);
  std::optional<failure> why;
  const auto make = [&](std::size_t batch) {
    std::vector<result<schedule_ptr>> made;
    const rank first = static_cast<rank>(batch) * k_batch;
    for (rank r = first; r < std::min(size, first + k_batch); ++r) made.push_back(generate(world{r, size}));
    return made;
  };
  in_order((static_cast<std::size_t>(size) + k_batch - 1) / k_batch, make,
           [&](std::size_t, const std::vector<result<schedule_ptr>>& made) {
             for (const auto& program : made)
               if (!why) why = program ? all.add(*program) : std::optional(program.error());
           });
  if (!why) why = all.finish();
  if (why) return std::move(*why);
  return all;
}

}  // namespace lsched::cli
