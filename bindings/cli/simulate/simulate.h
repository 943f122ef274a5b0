// What the files of `lsched simulate` share: its options, the runs that they ask for, simulations on all cores.
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
  std::string file;                   ///< where schedules come from; empty: they are generated
  std::vector<schedule_ptr> given{};  ///< in that file
  std::optional<goal> program{};      ///< likewise
  std::string collective = "allreduce";
  std::string algorithm = "recursive_doubling";
  std::vector<rank> ranks{8};
  std::vector<std::uint64_t> bytes{1024};
  bool rounds_bytes = false;      ///< up to what the algorithm of a file serves
  rank ranks_per_node = 0;        ///< of algorithms that go by nodes; 0: all ranks
  std::uint64_t count = 1 << 20;  ///< of a sparse allreduce
  sparse_data sparse;
  std::uint32_t period = 64;
  std::uint32_t bucket = 0;
  std::string to_goal;
  std::string activation = "solo";
  bool is_loggopsims = false;                               ///< rules: those of its main line
  std::vector<machine_level> levels;                        ///< of groups of neighbours, innermost first
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

/// Options that would change nothing are mistakes. Once they are parsed; throws the parser's errors, and fills in what
/// depends on others.
void check_simulate_options(const CLI::App& command, simulate_options& options);

/// The model, with its levels, and the skew and the noise of files. Throws command_failure.
simulation model_of(const simulate_options& options);

// --- runs --------------------------------------------------------------------------------------------------

struct simulated_run {
  rank ranks = 0;
  std::uint64_t bytes = 0;
  std::uint64_t seed = 0;
  simulation model{};
  activation starts{};                    ///< of a partial collective
  std::span<const schedule_ptr> given{};  ///< of a file
  const goal* program = nullptr;          ///< of a file, under LogGOPSim's rules
  const sparse_algorithm* sparse = nullptr;
  sparse_problem problem{};   ///< of a sparse allreduce
  std::string_view remark{};  ///< node_warning (collectives/algorithm/algorithm.h)
};

/// What a file says is to be simulated; nothing without one. LogGOPSim's rules take a GOAL program as it is.
struct given_world {
  std::vector<schedule_ptr> schedules{};
  const goal* program = nullptr;  ///< the options'
  rank ranks() const { return static_cast<rank>(program ? program->ranks.size() : schedules.size()); }
};

/// Throws command_failure.
given_world given_to(const simulate_options& options);

/// A run for each number of ranks, size and seed; of what is `given`, which outlives the runs, for each seed. Throws
/// command_failure and the parser's errors.
std::vector<simulated_run> runs_of(const simulate_options& options, const given_world& given);

using schedule_generator = std::function<result<schedule_ptr>(world)>;

/// What makes the schedule of one rank: a generator, or the file. Lives no longer than its arguments.
schedule_generator generator_of(const simulate_options& options, const simulated_run& run);

/// The world of the schedules that `generate` makes for all ranks, each generated once on one of all cores, packed and
/// dropped. Failures: those of packed_world, and of `generate`.
result<packed_world> packed_in_parallel(rank size, const schedule_generator& generate);

/// As simulation::progress.
using simulation_progress = std::function<void(std::uint64_t)>;

/// Calls simulate(i, progress) for all i below `count`, at most one per core at a time, and done(i, report) in order,
/// with a progress line on standard error. A report does not outlive its `done`. Throws command_failure with the first
/// failure in that order.
void run_batch(std::size_t count,
               const std::function<result<simulation_report>(std::size_t, const simulation_progress&)>& simulate,
               const std::function<void(std::size_t, const simulation_report&)>& done);

// --- other modes; each answers the exit status, and throws command_failure ---------------------------------

/// Figure 9 of Li et al. (2020) as the model has it: mean latency and number of active processes of synchronous,
/// majority and solo allreduce when rank r calls r * skew late. Majority is averaged over initiators: all of them up to
/// 64 ranks, else 16 (8 from 10^5 ranks on) in the middle of equal parts of the world. What was measured only ever
/// stands beside that.
int predict_fig9(const simulate_options& options, bool has_ranks);

/// L, o, g and G of this machine, measured between two threads, and what the model then predicts for a few collectives,
/// beside what they take; in a few seconds. Rounds in which a thread slept are not looked at: of many short batches the
/// fast ones count, and of several repetitions their median. 1 if the numbers are not usable.
int calibrate(bool as_json);

}  // namespace lsched::cli
