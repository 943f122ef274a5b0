// The workspace of the kernels that select the k elements of largest magnitude, and the partition of vectors over
// thread blocks.
#pragma once

#include <cstdint>

namespace lsched {

inline constexpr std::uint32_t k_select_bits = 11;  ///< number of bits of the k-th magnitude that one pass determines
inline constexpr std::uint32_t k_select_bins = 1u << k_select_bits;
inline constexpr std::uint32_t k_select_own = 16;   ///< elements of a row that one thread processes
inline constexpr std::uint32_t k_select_rows = 16;  ///< rows in a tile; the threads of a block share a row

/// The number of elements with a magnitude above the k-th largest, and the number of elements with the k-th largest
/// magnitude.
struct select_tally {
  std::uint64_t above, equal;
};

/// The data between the passes of a selection. All members except `tiles` are set to zero before the first pass.
struct select_workspace {
  std::uint64_t low;    ///< leading bits of the k-th magnitude that are known so far, padded with zeros
  std::uint64_t above;  ///< number of elements whose magnitude exceeds `low` in the known bits
  std::uint64_t bins[k_select_bins];
  select_tally tiles[1];  ///< one entry for each tile
};

}  // namespace lsched
