// The pictures of `lsched bench sparse-figures`.
#pragma once

#include <span>
#include <string>

#include "microbench/harness.h"
#include "microbench/sparse/sparse_figures_balance.h"
#include "microbench/sparse/sparse_figures_fill_in.h"
#include "microbench/sparse/sparse_figures_threshold.h"

namespace lsched::bench {

// Answers and failures: draw_picture's.

/// Density against P: of a first round, with residuals, by the formula, and the paper's.
bool plot_fill_in(const std::string& png, std::span<const fill_in_row> rows, reporter& out);

/// Words of the busiest rank, in multiples of k, against P: split, and gather.
bool plot_balance(const std::string& png, std::span<const balance_row> rows, reporter& out);

/// Fig. 6: selected / k by iteration, of residuals and of sums; Fig. 4: two histograms with thresholds.
bool plot_threshold(const std::string& png, const threshold_figure& figure, reporter& out);

}  // namespace lsched::bench
