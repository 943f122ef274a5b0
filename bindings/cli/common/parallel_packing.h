// A world's schedules, generated on all cores and packed.
#pragma once

#include "bindings/cli/common/parallel.h"
#include "libsched/simulate/packed_world.h"

namespace lsched::cli {

/// The world of the schedules that `generate(world)` makes for all ranks, called on all cores. Failures: those of
/// packed_world, and of `generate`.
template <class Generate>
result<packed_world> packed_in_parallel(rank size, const Generate& generate) {
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
             for (const auto& it : made)
               if (!why) why = it ? all.add(*it) : std::optional(it.error());
           });
  if (!why) why = all.finish();
  if (why) return std::move(*why);
  return all;
}

}  // namespace lsched::cli
