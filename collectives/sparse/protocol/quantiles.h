// Regions that have equal shares of what is selected: boundaries are quantiles of the positions of items. Ranks find
// them together, by an allreduce of a few numbers: each puts its own in, and all of them read the same ones out of the
// sums.
#pragma once

#include <span>

#include "collectives/sparse/protocol/problem.h"

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

}  // namespace lsched
