// One run of `lsched simulate`: what is simulated, and the schedules of it.
#pragma once

#include <span>

#include "bindings/cli/simulate/simulate_options.h"
#include "collectives/algorithm/shape.h"
#include "libsched/simulate/packed_world.h"

namespace lsched::cli {

struct simulated_run {
  rank ranks = 0;
  std::uint64_t bytes = 0;
  std::uint64_t seed = 0;
  simulation what{};
  activation starts{};                    ///< of a partial collective
  std::span<const schedule_ptr> given{};  ///< of --file and --goal
  const sparse_algorithm* sparse = nullptr;
  sparse_problem problem{};   ///< of that
  std::string_view remark{};  ///< what node_warning says (algorithm.h)
};

/// What is asked of so many ranks.
shape shape_of(const simulate_options& options, const simulated_run& it);

/// A world as below, every schedule generated once, packed and dropped. Takes all cores.
result<packed_world> packed_world_of(const simulate_options& options, const simulated_run& it);

/// A world as the generators write it, or as a file has it.
result<std::vector<schedule_ptr>> world_of(const simulate_options& options, const simulated_run& it);

}  // namespace lsched::cli
