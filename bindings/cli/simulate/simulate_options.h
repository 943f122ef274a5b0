// The options of `lsched simulate`: what they may say, which of them go together, and what the model makes of them.
#pragma once

#include "bindings/cli/common/sparse_words.h"
#include "libsched/simulate/simulation.h"

namespace lsched::cli {

constexpr double k_ps_per_us = 1e6, k_fs_per_ns = 1e6;

struct simulate_options {
  std::string collective = "allreduce";
  std::string algorithm = "recursive_doubling";
  std::vector<std::int32_t> ranks{8};
  std::vector<std::uint64_t> bytes{1024};
  std::int32_t ranks_per_node = 0;  ///< of algorithms that go by nodes; 0: all ranks
  std::uint64_t count = 1 << 20;    ///< of a sparse allreduce
  sparse_data sparse;
  std::uint32_t period = 64;
  std::uint32_t bucket = 0;
  std::string file;
  std::string goal;
  std::string to_goal;
  std::string activation = "solo";
  std::int32_t initiator = 0;

  double L = 2500, o = 1500, g = 1000, G = 6, O = 0, compute = 0;  // ns, ns per byte
  std::uint64_t S = 65'535;
  std::vector<std::string> levels;
  std::string rules = "libsched";

  std::string skew = "none";
  double skew_us = 1000, sigma = 0.5, shift_us = 0, most_us = 0;
  std::int32_t stragglers = 1;
  std::string skew_file;
  std::vector<std::int32_t> skew_ranks;
  std::string cpu_noise = "none";
  double cpu_noise_us = 25, period_us = 1000, alpha = 2, jitter_us = 0;
  std::string noise_file;
  bool cosched = false;
  double speed_cv = 0, slow_share = 0, slow_factor = 2;
  std::uint64_t instance = 1;
  std::uint64_t seed = 1, seeds = 1;

  bool critical_path = false;
  std::string trace;
  std::int32_t trace_ranks = 64;
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

machine machine_from(const simulate_options& options);
/// These read files. Throw command_failure.
start_skew skew_from(const simulate_options& options);
cpu_noise noise_from(const simulate_options& options);

}  // namespace lsched::cli
