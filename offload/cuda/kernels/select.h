// The workspace of the kernels that select, and the division of vectors among blocks of threads.
#pragma once

#include <cstdint>

namespace lsched {

inline constexpr std::uint32_t k_select_bits = 11;  ///< bits of a magnitude that one pass determines
inline constexpr std::uint32_t k_select_bins = 1u << k_select_bits;
inline constexpr std::uint32_t k_select_own = 16;   ///< neighbouring elements of one thread
inline constexpr std::uint32_t k_select_rows = 16;  ///< rows of a block's elements in one tile

/// Numbers of elements whose magnitude is above the k-th magnitude, and equal to it.
struct select_tally {
  std::uint64_t above, equal;
};

/// Cleared before the first pass, except for tiles.
struct select_workspace {
  std::uint64_t low;    ///< the known bits of the k-th magnitude, followed by zeros
  std::uint64_t above;  ///< elements above all elements that agree with the known bits
  std::uint64_t bins[k_select_bins];
  select_tally tiles[1];  ///< one for each tile
};

}  // namespace lsched
