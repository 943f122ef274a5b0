// Regions that have equal shares of what is selected: boundaries are quantiles of the positions of items. Ranks find
// them together, by an allreduce of a few numbers: each puts its own in, and all of them read the same ones out of the
// sums.
#pragma once

#include <span>

#include "sparse/problem.h"

namespace lsched {

/// How many numbers, u64, these are.
///
/// `pooled`: bins of equal width over the vector, the last one perhaps narrower: about 256 for each region, but 16384
/// at most. No bin is empty of positions, and there are none if the vector has none.
/// `averaged`: P; the sums of the P-1 positions of ranks' own quantiles, and how many ranks had any.
std::uint64_t position_bins(const sparse_problem& of);

/// Writes a rank's own numbers: position_bins of them. selected: by position in the vector. O(selected + bins).
void count_positions(const sparse_problem& of, item_list selected, std::span<std::uint64_t> bins);

/// Writes the P+1 boundaries that follow from all ranks' sums: ascending, 0 first and `count` last, two equal ones
/// being an empty region. Within a bin, items are taken to be spread evenly. Equal regions if nobody has an item.
/// O(bins + P).
void place_boundaries(const sparse_problem& of, std::span<const std::uint64_t> sums,
                      std::span<std::uint64_t> boundaries);

// In every round, boundaries follow what is selected, which drifts: each rank counts its items in a few parts of each
// region, the shorter the nearer they are to its ends, and by the sums of these counters the boundaries become
// quantiles again. That is fewer words than a look, and it needs one behind it: a region that holds everything is cut
// in no more parts than another.

/// How many counters, u64: 16 for each region, fewer in worlds of more than 256 ranks, at least 1; none if the rule is
/// `averaged`.
std::uint64_t drift_bins(const sparse_problem& of);

/// Writes a rank's own: drift_bins of them. boundaries: P+1. O(selected + bins).
void count_drift(const sparse_problem& of, item_list selected, std::span<const std::uint64_t> boundaries,
                 std::span<std::uint64_t> bins);

/// Writes the P+1 boundaries that follow from all ranks' sums; or `now`, if there are none or nobody has an item.
/// `next` is disjoint from `now`. O(bins).
void follow_drift(const sparse_problem& of, std::span<const std::uint64_t> sums, std::span<const std::uint64_t> now,
                  std::span<std::uint64_t> next);

}  // namespace lsched
