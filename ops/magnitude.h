// The magnitude of a floating-point number: its bits without the sign, as an unsigned integer. The larger the absolute
// value, the larger the magnitude. Infinity lies above all finite numbers, and NaN above infinity.
#pragma once

#include <cstring>

#include "ops/base.h"

namespace lsched {

/// Returns the magnitude of infinity. Every NaN has a larger magnitude.
constexpr std::uint64_t infinite_magnitude(dtype type) {
  switch (type) {
    case dtype::f16: return 0x7C00;
    case dtype::bf16: return 0x7F80;
    case dtype::f32: return 0x7F800000;
    default: return 0x7FF0000000000000;
  }
}

/// Returns the magnitude of a number in memory. All supported machines are little-endian.
inline std::uint64_t magnitude_at(dtype type, const std::byte* number) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, number, size_of(type));
  return bits & ((std::uint64_t{1} << (8 * size_of(type) - 1)) - 1);
}

}  // namespace lsched
