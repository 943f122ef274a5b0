// The results of `lsched bench adasum`, and their picture.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "microbench/harness.h"

namespace lsched::bench {

/// A way to spend a round, all ranks together; times in microseconds.
struct adasum_row {
  std::string what;     ///< "adasum", "sum" or "mpi"
  std::string mode;     ///< the algorithm, or MPI's form
  std::string buffers;  ///< "malloc" or "lsched_alloc"
  bool in_place = false;
  std::uint32_t tensors = 1;
  std::uint64_t bytes = 0;
  summary us{};
  double wrong = 0;  ///< elements

  double sum_us = 0;  ///< our sum on the same buffers
  double mpi_us = 0;  ///< MPI's fastest on its own; 0: there is none
  double dot_us = 0;
  double exchange_us = 0;

  /// In passes and exchanges.
  double beyond_sum() const { return (us.median - sum_us) / (dot_us + exchange_us); }
  double of_sum() const { return us.median / sum_us; }
  double of_mpi() const { return us.median / mpi_us; }
};

/// The median against the size, a line for each of sum, MPI, and adasum by number of tensors, the best of their rows;
/// below it what adasum takes of the sum. One rank only. Answers and failures: draw_picture's.
bool plot_adasum(const std::string& png, std::span<const adasum_row> rows, int ranks, reporter& out);

}  // namespace lsched::bench
