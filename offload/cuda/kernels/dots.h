// The division of dot products among thread blocks. ops/adasum/adasum.h defines blocks of elements, and groups of such
// blocks.
#pragma once

#include <cstdint>

namespace lsched {

inline constexpr std::uint32_t k_device_dots = 3;           ///< the dot products a.b, a.a and b.b
inline constexpr std::uint32_t k_device_dot_block = 1024;   ///< elements in a block of elements
inline constexpr std::uint32_t k_device_dot_group = 64;     ///< blocks in a group; one thread block adds a group
inline constexpr std::uint32_t k_threads_of_dot_block = 4;  ///< threads that share the lanes of a block of elements
inline constexpr std::uint64_t k_device_dot_group_elements = std::uint64_t{k_device_dot_block} * k_device_dot_group;

}  // namespace lsched
