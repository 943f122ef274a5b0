// The options of `lsched simulate`: what they may say, which of them go together, and what the model makes of them.
#pragma once

#include "bindings/cli/common/words.h"
#include "libsched/simulate/simulation.h"

namespace lsched::cli {

constexpr double k_ps_per_ns = 1e3, k_ps_per_us = 1e6, k_fs_per_ns = 1e6;

struct simulate_options {
  std::string collective = "allreduce";
  std::string algorithm = "recursive_doubling";
  std::vector<rank> ranks{8};
  std::vector<std::uint64_t> bytes{1024};
  rank ranks_per_node = 0;        ///< of algorithms that go by nodes; 0: all ranks
  std::uint64_t count = 1 << 20;  ///< of a sparse allreduce
  sparse_data sparse;
  std::uint32_t period = 64;
  std::uint32_t bucket = 0;
  std::string file, goal;  ///< where schedules come from; both empty: they are generated
  std::string to_goal;
  std::string activation = "solo";
  std::vector<machine_level> levels;                        ///< of groups of neighbours, innermost first
  simulation model{.noise = {.pace = {.slow_factor = 2}}};  ///< completed by model_of
  std::string skew_file, noise_file;
  std::uint64_t seed = 1, seeds = 1;

  bool critical_path = false;
  std::string trace;
  rank trace_ranks = 64;
  bool fig9 = false;
  std::string plot;
  std::string measured;
  bool calibrate = false;
  bool as_json = false;
};

void add_simulate_options(CLI::App& command, simulate_options& options);

/// Options that would change nothing are mistakes. Once they are parsed; throws the parser's errors, and fills in what
/// depends on others.
void check_simulate_options(const CLI::App& command, simulate_options& options);

/// The file that the schedules come from; empty: they are generated.
inline const std::string& path_of(const simulate_options& options) {
  return options.file.empty() ? options.goal : options.file;
}

/// The model, with its levels, and the skew and the noise of files. Throws command_failure.
simulation model_of(const simulate_options& options);

}  // namespace lsched::cli
