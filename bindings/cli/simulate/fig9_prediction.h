// Figure 9 of Li et al. (2020) as the model has it: mean latency and number of active processes of synchronous,
// majority and solo allreduce when rank r calls r * skew late. What was measured is passed
// through, and only ever stands beside it.
#pragma once

#include <string>
#include <vector>

#include "bindings/cli/simulate/fig9_measured.h"
#include "libsched/simulate/simulation.h"

namespace lsched::cli {

struct fig9_point {
  rank ranks = 0;
  activation_policy policy = activation_policy::full;  ///< full: synchronous
  double latency_ms = 0;                               ///< mean over ranks, and over rounds
  double formula_ms = 0;                               ///< closed form, with the simulated cost of the collective
  double active = 0;                                   ///< mean over rounds
  std::size_t rounds = 0;
};

struct fig9_request {
  std::vector<rank> ranks{32, 256, 4096, 32768, 1'000'000};
  std::uint64_t bytes = 64;
  machine where{};
  picoseconds skew = 1'000'000'000;
};

/// Three points for each number of ranks. Majority is averaged over initiators: all of them up to 64 ranks, else 16 (8
/// from 10^5 ranks on) in the middle of equal parts of the world. Throws command_failure.
std::vector<fig9_point> predict_fig9(const fig9_request& what);

/// Throws command_failure unless plot_fig9_prediction can write its files. Leaves nothing behind.
void expect_plottable(const std::string& png);

/// Of the same world and policy; nothing if there is none.
const fig9_measurement* find(const std::vector<fig9_measurement>& measured, const fig9_point& point);

/// Writes FILE.png, and the .dat and .gp it is made of, by gnuplot. Throws command_failure.
void plot_fig9_prediction(const std::string& png, const std::vector<fig9_point>& points,
                          const std::vector<fig9_measurement>& measured, const fig9_request& what);

}  // namespace lsched::cli
