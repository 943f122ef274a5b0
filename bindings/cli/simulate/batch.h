// Independent simulations on all cores, and worlds whose schedules are generated on all cores.
#pragma once

#include <functional>

#include "libsched/simulate/packed_world.h"
#include "libsched/simulate/simulation.h"

namespace lsched::cli {

/// As simulation::progress.
using simulation_progress = std::function<void(std::uint64_t)>;

/// Calls simulate(i, progress) for all i below `count`, at most one per core at a time, and done(i, report) in order,
/// with a progress line on standard error. A report does not outlive its `done`. Throws command_failure with the first
/// failure in that order.
void run_batch(std::size_t count,
               const std::function<result<simulation_report>(std::size_t, const simulation_progress&)>& simulate,
               const std::function<void(std::size_t, const simulation_report&)>& done);

/// The world of the schedules that `generate` makes for all ranks, each generated once, packed and dropped. Failures:
/// those of packed_world, and of `generate`.
result<packed_world> packed_in_parallel(rank size, const std::function<result<schedule_ptr>(world)>& generate);

}  // namespace lsched::cli
