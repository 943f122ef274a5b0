// What `lsched bench sparse-figures` has in common: which numbers an option that was left out stands for, and what a
// figure tells of its progress.
#pragma once

#include <functional>

#include "collectives/sparse/steps/problem.h"
#include "microbench/benchmarks.h"

namespace lsched::bench {

/// Called now and then with what is under way.
using tell_progress = std::function<void(const std::string&)>;

/// The same options, in which nothing is left to be chosen. Throws `failed` for what the figure cannot be drawn of.
sparse_figures_options completed(const sparse_figures_options& options);

/// Of rank 0 in a world of so many, with k at least 1.
sparse_problem figure_problem(const sparse_figures_options& options, double density, rank ranks);

}  // namespace lsched::bench
