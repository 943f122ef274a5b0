// The division of work among thread blocks and threads of a device.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace lsched {

struct device_grid {
  std::uint32_t blocks = 1;
  std::uint32_t threads = 1;  ///< number of threads in a block
  friend bool operator==(const device_grid&, const device_grid&) = default;
};

inline constexpr std::uint32_t k_most_device_threads = 256;  ///< maximum number of threads in a block
inline constexpr std::uint64_t k_most_device_blocks = std::numeric_limits<std::int32_t>::max();
inline constexpr std::uint32_t k_device_vector_bytes = 16;  ///< largest memory access of an instruction, in bytes

/// Returns count / each, rounded up.
constexpr std::uint64_t parts(std::uint64_t count, std::uint64_t each) {
  return count / each + (count % each != 0 ? 1 : 0);
}

/// Returns the number of threads in a block for `wanted` items: one for each item, but at most k_most_device_threads.
/// The number is a multiple of the warp size, because a partial warp takes as long as a whole warp.
constexpr std::uint32_t threads_for(std::uint64_t wanted) {
  constexpr std::uint32_t warp = 32;
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(parts(wanted, warp) * warp, warp, k_most_device_threads));
}

/// Returns a grid of `blocks` blocks, but at least one block.
constexpr device_grid grid_of(std::uint64_t blocks, std::uint32_t threads) {
  return {static_cast<std::uint32_t>(std::clamp<std::uint64_t>(blocks, 1, k_most_device_blocks)), threads};
}

/// Returns a grid with a thread for each item.
constexpr device_grid grid_for(std::uint64_t wanted) {
  return grid_of(parts(wanted, k_most_device_threads), threads_for(wanted));
}

}  // namespace lsched
