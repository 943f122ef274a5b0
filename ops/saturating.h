// Saturating arithmetic: a result above 2^64-1 becomes 2^64-1.
#pragma once

#include <cstdint>
#include <limits>

namespace lsched {

inline constexpr std::uint64_t k_saturated = std::numeric_limits<std::uint64_t>::max();

constexpr std::uint64_t saturating_product(std::uint64_t x, std::uint64_t y) {
  return x != 0 && y > k_saturated / x ? k_saturated : x * y;
}

constexpr std::uint64_t saturating_sum(std::uint64_t x, std::uint64_t y) {
  return y > k_saturated - x ? k_saturated : x + y;
}

}  // namespace lsched
