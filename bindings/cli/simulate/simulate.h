// Common parts of `lsched simulate`: its options, the runs that the options request, and simulations on all cores.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/cli/common/words.h"
#include "libsched/simulate/simulation.h"
#include "libsched/simulate/packed_world.h"

namespace lsched::cli {

constexpr double k_ps_per_ns = 1e3, k_ps_per_us = 1e6, k_fs_per_ns = 1e6;

// --- options -----------------------------------------------------------------------------------------------

struct simulate_options {
  std::string file;                   ///< path of a file of schedules; empty: schedules are generated
  std::vector<schedule_ptr> given{};  ///< schedules of `file`, by rank; those of a GOAL program are converted
  std::string collective = "allreduce";
  std::string algorithm = "recursive_doubling";
  std::vector<rank> ranks{8};
  std::vector<std::uint64_t> bytes{1024};
  bool rounds_bytes = false;       ///< true: sizes are rounded up to counts that the algorithm from a file supports
  rank ranks_per_node = 0;         ///< number of ranks per node, for algorithms that use nodes; 0: all ranks are on one
                                   ///< node
  std::uint64_t count = 1 << 20;   ///< number of elements of a sparse allreduce
  std::optional<std::uint64_t> k;  ///< items of a sparse allreduce (items_of)
  std::string to_goal;
  std::string activation = "solo";
  std::vector<machine_level> levels;  ///< costs within groups of neighbouring ranks, innermost group first
  simulation model{};                 ///< machine, skew and noise; check_simulate_options() adds `levels`
  std::vector<std::uint64_t> seeds{1};

  bool critical_path = false;
  std::string trace, svg;
  bool fig9 = false;
  bool calibrate = false;
  std::string json;
};

void add_simulate_options(CLI::App& command, simulate_options& options);

/// Checks the parsed options and fills in values that depend on other options. Throws the parser's errors, also for an
/// option that has no effect.
void check_simulate_options(const CLI::App& command, simulate_options& options);

// --- runs --------------------------------------------------------------------------------------------------

struct simulated_run {
  rank ranks = 0;
  std::uint64_t bytes = 0;
  std::uint64_t seed = 0;
  simulation model{};
  activation starts{};  ///< activation of a partial collective
  const sparse_algorithm* sparse = nullptr;
  sparse_problem problem{};    ///< request of a sparse allreduce
  std::string_view warning{};  ///< text of node_warning (collectives/algorithm/algorithm.h)
};

/// Returns a run for each number of ranks, size and seed, or for each seed if the schedules are from a file. Throws
/// command_failure and the parser's errors.
std::vector<simulated_run> runs_of(const simulate_options& options);

using schedule_generator = std::function<result<schedule_ptr>(world)>;

/// Returns a function that returns the schedule of one rank, generated or from the file. `options` and `run` must
/// outlive that function.
schedule_generator generator_of(const simulate_options& options, const simulated_run& run);

/// Generates the schedules of all ranks on all cores and packs them. Each schedule is generated once, and is destroyed
/// after it was packed. Failures: those of packed_world, and of `generate`.
result<packed_world> packed_in_parallel(rank size, const schedule_generator& generate);

using simulation_progress = std::function<void(std::uint64_t)>;

/// Calls simulate(i, progress) for all i below `count`, with at most one call per core at a time. Calls done(i, report)
/// in ascending order of i. Shows a progress line on standard error. A report is destroyed after done(i, report)
/// returns. Throws command_failure with the failure of the lowest i.
void run_batch(std::size_t count,
               const std::function<result<simulation_report>(std::size_t, const simulation_progress&)>& simulate,
               const std::function<void(std::size_t, const simulation_report&)>& done);

/// Returns the smallest v in `values` such that the share of values <= v is at least `q` (0 … 1). `values` must not be
/// empty.
template <class Value>
Value quantile(std::vector<Value> values, double q) {
  const auto wanted = static_cast<std::ptrdiff_t>(std::ceil(q * static_cast<double>(values.size())));
  const auto place = values.begin() + std::max<std::ptrdiff_t>(wanted - 1, 0);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

// --- other modes; each returns the exit status, or throws command_failure ----------------------------------

/// Predicts Figure 9 of Li et al. (2020): latency and number of active processes of synchronous, majority and solo
/// allreduce. Rank r calls at time r * skew. For majority, the prediction is the mean over initiators. In worlds of up
/// to 64 ranks, every rank is an initiator. Larger worlds have n = 16 initiators, or n = 8 from 10^5 ranks on. The
/// world is divided into n equal parts, and the middle rank of each part is an initiator.
int predict_fig9(const simulate_options& options, bool has_ranks);

/// Measures L, o, g and G of this machine between two threads. This takes a few seconds. Prints the predictions of the
/// model for a few collectives beside their measured times. Measures many short batches, and uses only the fast
/// batches, to exclude rounds in which a thread slept. The result is the median over repetitions. Returns 1 if the
/// numbers are not usable.
int calibrate(bool as_json);

}  // namespace lsched::cli
