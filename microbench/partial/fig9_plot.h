// The picture of Figure 9, drawn by gnuplot from two files left beside it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "microbench/harness.h"

namespace lsched::bench {

/// One bar of the figure.
struct fig9_row {
  std::string what;  ///< "mpi", "solo", "majority"
  std::uint64_t bytes = 0;
  std::uint64_t iterations = 0;
  double ideal_ms = 0;  ///< for infinitely fast communication and these arrival times
  double mean_ms = 0;   ///< over ranks and iterations
  double p50_ms = 0;    ///< over iterations, of the mean over ranks
  double p95_ms = 0;
  double slowest_ms = 0;  ///< mean over iterations of the slowest rank
  double wall_ms = 0;     ///< of one iteration, sleeping included
  double cores = 0;       ///< processor time of all ranks over wall time
  double nap = 0;         ///< mean number of active processes
  std::uint64_t wrong = 0;
};

/// Latency (log axis) and active processes against message size. One rank only. Answers and failures:
/// draw_picture's.
bool plot_fig9(const std::string& png, std::span<const fig9_row> rows, int ranks, reporter& out);

}  // namespace lsched::bench
