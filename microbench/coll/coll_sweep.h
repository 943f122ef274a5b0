// One collective over all sizes: measured, checked, reported.
#pragma once

#include <string>
#include <vector>

#include "microbench/benchmarks.h"
#include "microbench/coll/coll_plot.h"
#include "microbench/exercise.h"
#include "microbench/harness.h"

namespace lsched::bench {

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
