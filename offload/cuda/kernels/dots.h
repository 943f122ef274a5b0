// The partition of dot products over CUDA thread blocks. ops/adasum/adasum.h defines blocks of elements, and groups of
// such blocks.
#pragma once

#include <cstdint>

namespace lsched {

inline constexpr std::uint32_t k_device_dots = 3;           ///< the dot products a.b, a.a and b.b
inline constexpr std::uint32_t k_device_dot_block = 1024;   ///< number of elements in a block of elements
inline constexpr std::uint32_t k_device_dot_group = 64;     ///< number of blocks in a group
inline constexpr std::uint32_t k_threads_of_dot_block = 4;  ///< number of threads for the lanes of a block
inline constexpr std::uint64_t k_device_dot_group_elements = std::uint64_t{k_device_dot_block} * k_device_dot_group;

}  // namespace lsched
