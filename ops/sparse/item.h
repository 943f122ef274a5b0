// Sparse vectors in coordinate format, and the order of their elements by magnitude.
//
// An *item* is a u32 index followed at once by a value of f16, bf16, f32 or f64: 6, 6, 8 or 12 bytes, little-endian, no
// padding, no alignment. A *list* is an array of items, ascending by index, no index twice, no value zero (of either
// sign). Indices count from a base that belongs to the list's context, so that a vector may be longer than 2^32. A
// prefix of a list is a list, and so are lists of ascending regions, one behind the other.
//
// The *magnitude* of a number is its bits without the sign, as an unsigned integer: as numbers grow, so does it;
// infinity lies above all finite ones, NaN above infinity. Items have an *order by magnitude*: the greater
// magnitude first, of equal ones the smaller index. It is a total order, and the same everywhere.
//
// The *residual* of a vector is what of it has not been sent yet. It is f32 for f16, bf16 and f32, and f64 for f64: as
// wide as arithmetic on these is (ops/kernel.h).
//
// What holds for all kernels of sparse vectors: they exist for the four floating types, and find functions answer
// nullptr for others. Their type is that of values. They do not allocate; any number of threads may call them at once;
// the same bits in give the same bits out at every SIMD level, in the default floating-point environment. What they
// compute is the positive quiet NaN without payload where it is NaN; what they only move keeps its bits. Pointers may
// be null where there is nothing to point at; those to items and vectors need no alignment beyond that of an element,
// items none at all. Where nothing else is said, operands are disjoint. Kernels do not check that lists are lists.
#pragma once

#include <bit>
#include <cstring>

#include "ops/base.h"

namespace lsched {

/// Bytes of an item.
constexpr std::size_t item_size(dtype type) { return sizeof(std::uint32_t) + size_of(type); }

/// The type of a vector's residual.
constexpr dtype residual_of(dtype type) { return type == dtype::f64 ? dtype::f64 : dtype::f32; }

/// In the total order, NaN come before all numbers, so that they are sent and everybody sees them; or they are passed
/// over as if they were zero, and stay where they are. `error` is `propagate` to kernels; a round that has any in its
/// result is refused then (judge.h).
enum class nan_policy : std::uint8_t { propagate, ignore, error };

/// Magnitudes of a residual, as bits of its type: from least to most, both included; none if least is above most.
struct magnitude_range {
  std::uint64_t least = 1;
  std::uint64_t most = ~std::uint64_t{0};
};

/// Magnitude of a value as a number of a residual's type, f32 or f64.
constexpr std::uint64_t magnitude_in(dtype residual, double value) {
  if (residual == dtype::f32) return std::bit_cast<std::uint32_t>(static_cast<float>(value)) & 0x7FFFFFFFU;
  return std::bit_cast<std::uint64_t>(value) & ~(std::uint64_t{1} << 63);
}

/// Magnitude of an infinite value; of NaN it is above that.
constexpr std::uint64_t infinite_magnitude(dtype type) {
  switch (type) {
    case dtype::f16: return 0x7C00;
    case dtype::bf16: return 0x7F80;
    case dtype::f32: return 0x7F800000;
    default: return 0x7FF0000000000000;
  }
}

/// Magnitude of an item's value.
inline std::uint64_t magnitude_at(dtype type, const std::byte* item) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, item + sizeof(std::uint32_t), size_of(type));
  return bits & ((std::uint64_t{1} << (8 * size_of(type) - 1)) - 1);
}

}  // namespace lsched
