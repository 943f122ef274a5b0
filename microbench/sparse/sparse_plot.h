// The picture of `lsched bench sparse`.
#pragma once

#include <span>
#include <string>

#include "microbench/harness.h"
#include "microbench/sparse/sparse_row.h"

namespace lsched::bench {

/// Words received, phase by phase and in all, and the published bound, in multiples of k; and the median time, where
/// rounds were run. One rank only. Answers and failures: draw_picture's.
bool plot_sparse(const std::string& png, std::span<const sparse_row> rows, reporter& out);

}  // namespace lsched::bench
