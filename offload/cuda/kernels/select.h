// What the kernels that select leave to each other, and how vectors are divided up among blocks of threads.
#pragma once

#include <cstdint>

namespace lsched {

inline constexpr std::uint32_t k_select_bits = 11;  ///< of a magnitude that a pass finds out
inline constexpr std::uint32_t k_select_bins = 1u << k_select_bits;
inline constexpr std::uint32_t k_select_own = 16;   ///< neighbouring elements, a thread's
inline constexpr std::uint32_t k_select_rows = 16;  ///< of a block's elements, a tile

/// Elements whose magnitude is above the k-th, and equal to it.
struct select_tally {
  std::uint64_t above, equal;
};

/// Zeros in the beginning, but for tiles.
struct select_workspace {
  std::uint64_t low;    ///< what is known of the k-th magnitude, and zeros
  std::uint64_t above;  ///< elements that are above all that agree with it
  std::uint64_t bins[k_select_bins];
  select_tally tiles[1];  ///< as many as there are
};

}  // namespace lsched
