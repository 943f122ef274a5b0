// Independent simulations on all cores, with a progress line on standard error.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "libsched/simulate/simulation.h"
#include "ops/status.h"

namespace lsched::cli {

/// One simulation; `messages` may be called with how many it has played.
using simulation_task = std::function<result<simulation_report>(const std::function<void(std::uint64_t)>& messages)>;

/// Runs all of them, at most one per core at a time, and answers with `done` applied to each report, in order. A report
/// does not outlive its `done`. Throws command_failure with the first failure in that order.
void run_batch(const std::vector<simulation_task>& tasks,
               const std::function<void(std::size_t task, const simulation_report&)>& done);

}  // namespace lsched::cli
