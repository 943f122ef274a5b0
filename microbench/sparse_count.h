// Sparse allreduces in one process, all ranks one after the other: what messages would carry is counted, and nothing is
// sent. The steps are those that schedules call; tests hold the counts against what engines have moved.
#pragma once

#include <functional>

#include "microbench/benchmarks.h"
#include "microbench/sparse_row.h"

namespace lsched::bench {

/// Of options.ranks ranks. With residuals up to k_most_residuals ranks; beyond, every rank's list is that of a gradient
/// drawn anew, and no vector is kept. Answers nothing for an algorithm that is not counted. `tell`: rounds done.
std::vector<sparse_row> count_sparse(const sparse_options& options, const std::string& algorithm,
                                     const std::function<void(const std::string&, std::uint64_t)>& tell);

inline constexpr std::uint64_t k_most_residuals = 256;

}  // namespace lsched::bench
