// One collective over all sizes: measured, checked, reported.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "microbench/benchmarks.h"
#include "microbench/exercise.h"
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

/// Who else is measured.
struct rivals {
  bool with_mpi = false;
  std::string mpi{};  ///< its name
};

/// All sizes of one collective, as options say; prints a table, writes JSON, and appends a row for each cell. Answers
/// whether ours were right everywhere. Collective.
bool sweep(const exercise_kind& kind, team& ranks, const coll_options& options, const rivals& how, reporter& out,
           std::vector<coll_row>& all);

}  // namespace lsched::bench
