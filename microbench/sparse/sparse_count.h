// Sparse allreduces in one process, all ranks one after the other: what messages would carry is counted, and nothing is
// sent. The steps are those that schedules call; tests hold the counts against what engines have moved.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "microbench/benchmarks.h"
#include "microbench/sparse/sparse_row.h"

namespace lsched::bench {

/// Of options.ranks ranks; with residuals up to k_most_residuals of them. Beyond, and of baselines, every rank's list
/// is that of a gradient drawn anew, and no vector is kept. All algorithms, of those that find_sparse knows, count the
/// same draws. `tell`: rounds done.
std::vector<sparse_row> count_sparse(const sparse_options& options, std::span<const std::string> algorithms,
                                     const std::function<void(std::uint64_t)>& tell);

inline constexpr rank k_most_residuals = 256;

}  // namespace lsched::bench
