// The division of dots among blocks of threads. Blocks and groups of elements are those of ops/adasum/adasum.h.
#pragma once

#include <cstdint>

namespace lsched {

inline constexpr std::uint32_t k_device_dots = 3;           ///< a.b, a.a, b.b
inline constexpr std::uint32_t k_device_dot_block = 1024;   ///< elements
inline constexpr std::uint32_t k_device_dot_group = 64;     ///< blocks of elements that one block of threads adds
inline constexpr std::uint32_t k_threads_of_dot_block = 4;  ///< threads that share the lanes of a block of elements
inline constexpr std::uint64_t k_device_dot_group_elements = std::uint64_t{k_device_dot_block} * k_device_dot_group;

}  // namespace lsched
