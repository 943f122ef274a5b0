// Looking at lists of items and thinning them out.
//
// What all kernels of sparse vectors have in common is said in item.h.
#pragma once

#include "ops/sparse/item.h"

namespace lsched {

/// Equal bins of magnitudes: bin b counts those from low + (b << shift) up to the beginning of the next one; the last
/// bin has all above, too, and what is below `low` is not counted. Magnitudes are bits of the items' type; shift is
/// below 64.
struct magnitude_bins {
  std::uint64_t low = 0;
  unsigned shift = 0;
  std::size_t count = 0;  ///< of bins, at least 1
};

/// Adds to bins[0 … where.count) how many items have such magnitudes. O(count).
using count_magnitudes_fn = void (*)(const void* items, std::size_t count, const magnitude_bins& where,
                                     std::uint64_t* bins);
count_magnitudes_fn find_count_magnitudes(dtype type);

/// Adds to bins[0 … n_bins) how many items have their position, base + index, in [b * width, (b + 1) * width):
/// positions in the whole vector, so that bins of several lists can be pooled. Positions beyond go to the last bin.
/// width and n_bins are at least 1; base + index is below 2^64. O(count).
void count_positions(dtype type, const void* items, std::size_t count, std::uint64_t base, std::uint64_t width,
                     std::uint64_t* bins, std::size_t n_bins);

/// Writes to `output`, by index, the items above a magnitude (bits of the items' type), and of those equal to it the
/// first `ties`; answers how many these are. Nothing is written behind them. output is items, or disjoint from them.
/// O(count).
using filter_items_fn = std::size_t (*)(const void* items, std::size_t count, std::uint64_t magnitude, std::size_t ties,
                                        void* output);
filter_items_fn find_filter_items(dtype type);

/// dense[index] = value / divisor, as find_divide's kernels divide (ops/kernel.h). The rest of `dense` is left as it
/// is. O(count).
using scatter_fn = void (*)(const void* items, std::size_t count, std::uint64_t divisor, void* dense);
scatter_fn find_scatter(dtype type);

}  // namespace lsched
