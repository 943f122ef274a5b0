// How much work is divided up among threads of a device, and these among blocks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace lsched {

struct device_grid {
  std::uint32_t blocks = 1;
  std::uint32_t threads = 1;  ///< of a block
  friend bool operator==(const device_grid&, const device_grid&) = default;
};

inline constexpr std::uint32_t k_most_device_threads = 256;  ///< of a block
inline constexpr std::uint64_t k_most_device_blocks = std::numeric_limits<std::int32_t>::max();
inline constexpr std::uint32_t k_device_vector_bytes = 16;  ///< what one instruction moves, at most

/// The parts of `each` that make up so much, of which the last may be smaller.
constexpr std::uint64_t parts(std::uint64_t count, std::uint64_t each) {
  return count / each + (count % each != 0 ? 1 : 0);
}

/// Threads of a block for so much that can be done at the same time: whole warps, which cost as much as one thread.
constexpr std::uint32_t threads_for(std::uint64_t wanted) {
  constexpr std::uint32_t warp = 32;
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(parts(wanted, warp) * warp, warp, k_most_device_threads));
}

/// At least one block, also for nothing.
constexpr device_grid grid_of(std::uint64_t blocks, std::uint32_t threads) {
  return {static_cast<std::uint32_t>(std::clamp<std::uint64_t>(blocks, 1, k_most_device_blocks)), threads};
}

/// A thread each for so much.
constexpr device_grid grid_for(std::uint64_t wanted) {
  return grid_of(parts(wanted, k_most_device_threads), threads_for(wanted));
}

}  // namespace lsched
