// Arithmetic modulo the prime 2^61-1, in which fingerprints add up.
#pragma once

#include <cstdint>

namespace lsched {

inline constexpr std::uint64_t k_prime = (std::uint64_t{1} << 61) - 1;
__extension__ using twice_as_wide = unsigned __int128;

/// Of numbers below the prime, as are all answers.
constexpr std::uint64_t modular_sum(std::uint64_t x, std::uint64_t y) {
  const std::uint64_t z = x + y;
  return z >= k_prime ? z - k_prime : z;
}

constexpr std::uint64_t modular_product(std::uint64_t x, std::uint64_t y) {
  const twice_as_wide z = static_cast<twice_as_wide>(x) * y;
  return modular_sum(static_cast<std::uint64_t>(z & k_prime), static_cast<std::uint64_t>(z >> 61));
}

constexpr std::uint64_t modular_power(std::uint64_t x, std::uint64_t exponent) {
  std::uint64_t value = 1;
  for (; exponent != 0; exponent >>= 1, x = modular_product(x, x))
    if ((exponent & 1) != 0) value = modular_product(value, x);
  return value;
}

/// By Fermat: x^(p-2). Of other than 0.
constexpr std::uint64_t modular_inverse(std::uint64_t x) { return modular_power(x, k_prime - 2); }

}  // namespace lsched
