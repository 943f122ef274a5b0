// The results of `lsched bench coll`, and their picture.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "microbench/harness.h"

namespace lsched::bench {

/// A cell, all ranks together.
struct coll_row {
  std::string collective;
  std::string impl;  ///< "libsched" or "mpi"
  std::string form;
  std::string buffers;
  std::string algorithm;
  bool in_place = false;
  std::uint64_t bytes = 0;
  summary us{};
  double wrong = 0;  ///< elements
};

/// The smallest median of MPI's right rows, µs; 0 if there is none.
double best_of_mpi(std::span<const coll_row> rows);

/// For each collective the median against the size, a line per implementation (ours by algorithm and buffers, MPI by
/// form; the better of in place and not, of blocking and persistent ours), and below it what each takes of MPI's best.
/// One rank only. Answers and failures: draw_picture's.
bool plot_coll(const std::string& png, std::span<const coll_row> rows, int ranks, const std::string& mpi,
               reporter& out);

}  // namespace lsched::bench
