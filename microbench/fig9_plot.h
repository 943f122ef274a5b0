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

/// Throws `failed` unless a picture of that name, and its two files, can be written. Leaves nothing behind.
void expect_writable(const std::string& png);

/// Writes NAME.dat and NAME.gp beside NAME.png and has gnuplot draw it: latency (log axis) and active
/// processes, grouped by message size. One rank only. False, with one line of explanation, if gnuplot refuses
/// the script; a gnuplot that is not installed is explained too but no failure. Throws `failed` if the files
/// cannot be written.
bool plot_fig9(const std::string& png, std::span<const fig9_row> rows, int ranks, reporter& out);

}  // namespace lsched::bench
