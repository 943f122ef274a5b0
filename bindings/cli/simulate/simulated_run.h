// The runs of `lsched simulate`: what is simulated, and its schedules.
#pragma once

#include <span>

#include "bindings/cli/simulate/simulate_options.h"
#include "libsched/simulate/packed_world.h"

namespace lsched::cli {

struct simulated_run {
  rank ranks = 0;
  std::uint64_t bytes = 0;
  std::uint64_t seed = 0;
  simulation model{};
  activation starts{};                    ///< of a partial collective
  std::span<const schedule_ptr> given{};  ///< of --file and --goal
  const sparse_algorithm* sparse = nullptr;
  sparse_problem problem{};   ///< of a sparse allreduce
  std::string_view remark{};  ///< remark_on (collectives/remark.h)
};

/// The schedules of --file or --goal; none without. Throws command_failure.
std::vector<schedule_ptr> given_to(const simulate_options& options);

/// A run for each number of ranks, size and seed; of `given` schedules, which outlive the runs, for each seed. Throws
/// command_failure and the parser's errors.
std::vector<simulated_run> runs_of(const simulate_options& options, std::span<const schedule_ptr> given);

/// The schedules as the generators write them, or as a file has them, packed. Takes all cores.
result<packed_world> packed_world_of(const simulate_options& options, const simulated_run& run);

/// Likewise, not packed.
result<std::vector<schedule_ptr>> world_of(const simulate_options& options, const simulated_run& run);

}  // namespace lsched::cli
