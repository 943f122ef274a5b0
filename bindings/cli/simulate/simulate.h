// Common parts of `lsched simulate`: its options, the runs that they request, and simulations on all cores.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "bindings/cli/common/words.h"
#include "bindings/cli/goal/goal.h"
#include "bindings/simulation/simulation.h"
#include "libsched/simulate/packed_world.h"

namespace lsched::cli {

constexpr double k_ps_per_ns = 1e3, k_ps_per_us = 1e6, k_fs_per_ns = 1e6;

// --- options -----------------------------------------------------------------------------------------------

struct simulate_options {
  std::string file;                   ///< file of schedules; empty: schedules are generated
  std::vector<schedule_ptr> given{};  ///< schedules of that file
  std::optional<goal> program{};      ///< GOAL program of that file
  std::string collective = "allreduce";
  std::string algorithm = "recursive_doubling";
  std::vector<rank> ranks{8};
  std::vector<std::uint64_t> bytes{1024};
  bool rounds_bytes = false;      ///< rounds sizes up to counts that the algorithm of a file supports
  rank ranks_per_node = 0;        ///< for algorithms that use nodes; 0: all ranks
  std::uint64_t count = 1 << 20;  ///< elements of a sparse allreduce
  sparse_data sparse;
  std::uint32_t period = 64;
  std::uint32_t bucket = 0;
  std::string to_goal;
  std::string activation = "solo";
  bool is_loggopsims = false;                               ///< uses the rules of LogGOPSim's main line
  std::vector<machine_level> levels;                        ///< costs in groups of neighbours, innermost group first
  simulation model{.noise = {.pace = {.slow_factor = 2}}};  ///< completed by model_of
  std::string skew_file, noise_file;
  std::uint64_t seed = 1, seeds = 1;

  bool critical_path = false;
  std::string trace, svg;
  rank trace_ranks = 64;
  bool fig9 = false;
  std::string plot;
  std::string measured;
  bool calibrate = false;
  std::string json;
};

void add_simulate_options(CLI::App& command, simulate_options& options);

/// Checks the parsed options and fills in values that depend on other options. Throws the parser's errors, also for an
/// option that has no effect.
void check_simulate_options(const CLI::App& command, simulate_options& options);

/// Returns the model, with its levels, and with the skew and the noise of files. Throws command_failure.
simulation model_of(const simulate_options& options);

// --- runs --------------------------------------------------------------------------------------------------

struct simulated_run {
  rank ranks = 0;
  std::uint64_t bytes = 0;
  std::uint64_t seed = 0;
  simulation model{};
  activation starts{};                    ///< for a partial collective
  std::span<const schedule_ptr> given{};  ///< schedules of a file
  const goal* program = nullptr;          ///< GOAL program of a file, under LogGOPSim's rules
  const sparse_algorithm* sparse = nullptr;
  sparse_problem problem{};   ///< for a sparse allreduce
  std::string_view remark{};  ///< node_warning (collectives/algorithm/algorithm.h)
};

/// The world of a file; empty without a file. Under LogGOPSim's rules, a GOAL program is not converted to schedules.
struct given_world {
  std::vector<schedule_ptr> schedules{};
  const goal* program = nullptr;  ///< owned by the options
  rank ranks() const { return static_cast<rank>(program ? program->ranks.size() : schedules.size()); }
};

/// Returns the world of the file in the options. Throws command_failure.
given_world given_to(const simulate_options& options);

/// Returns a run for each number of ranks, size and seed. If `given` is not empty, returns a run of that world for each
/// seed. `given` must outlive the runs. Throws command_failure and the parser's errors.
std::vector<simulated_run> runs_of(const simulate_options& options, const given_world& given);

using schedule_generator = std::function<result<schedule_ptr>(world)>;

/// Returns a function that generates the schedule of one rank, or takes it from the file. The arguments must outlive
/// the function.
schedule_generator generator_of(const simulate_options& options, const simulated_run& run);

/// Generates the schedules of all ranks on all cores and packs them. Each schedule is generated once, and destroyed
/// after it is packed. Failures: those of packed_world, and of `generate`.
result<packed_world> packed_in_parallel(rank size, const schedule_generator& generate);

/// The type of simulation::progress.
using simulation_progress = std::function<void(std::uint64_t)>;

/// Calls simulate(i, progress) for all i below `count`, at most one per core at a time, and done(i, report) in order.
/// Shows a progress line on standard error. A report is destroyed after its call of `done`. Throws command_failure with
/// the first failure in that order.
void run_batch(std::size_t count,
               const std::function<result<simulation_report>(std::size_t, const simulation_progress&)>& simulate,
               const std::function<void(std::size_t, const simulation_report&)>& done);

// --- other modes; each returns the exit status, or throws command_failure ----------------------------------

/// Predicts Figure 9 of Li et al. (2020): latency and number of active processes of synchronous, majority and solo
/// allreduce, if rank r calls r * skew late. Majority is averaged over initiators. Up to 64 ranks, these are all ranks.
/// For larger worlds, these are 16 ranks (8 from 10^5 ranks on) in the middle of equal parts of the world. Measured
/// values are printed beside the predictions and do not affect them.
int predict_fig9(const simulate_options& options, bool has_ranks);

/// Measures L, o, g and G of this machine between two threads, which takes a few seconds. Prints the predictions of the
/// model for a few collectives beside their measured times. To exclude rounds in which a thread slept, only the fast
/// ones of many short batches count. The result is the median over repetitions. Returns 1 if the numbers are not
/// usable.
int calibrate(bool as_json);

}  // namespace lsched::cli
