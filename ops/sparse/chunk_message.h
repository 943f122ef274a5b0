// The message of a chunk in SparseLoCo: a fixed number of elements of a part of the residual, with 14 bits for each
// element. A chunk has at most k_chunk elements, so that the index of an element has 12 bits.
//
//     low level │ high level │ a code of 2 bits for each slot │ an index of 12 bits for each slot
//
// A *level* is the upper half of the bits of a positive number of the residual's type: 16 bits for f32, and 32 bits for
// f64. A *code* has the sign in bit 1, and chooses the high level with bit 0. So the four values of a chunk are the two
// levels with both signs. Codes and indices begin at full bytes, and the lowest bits come first. Indices ascend. A slot
// is empty if its index is not above the index of the slot before, or if its level is zero.
//
// The encoder chooses the levels such that `element - value` is exact in the residual's type for every finite element
// of the message. So the residual loses nothing:
//
//   - Elements below 2^-15 times the largest finite element of the message are left out.
//   - A level has at most 8 significant bits (21 for f64). It is at most twice the smallest element of its group. It is
//     above 2^-16 times the largest element.
//   - So element and value are multiples of the element's unit in the last place, and their difference is not larger
//     than the element.
//
// An element that is infinite or NaN has the high level. This level is then NaN if the message has a NaN, or infinity,
// and all finite elements have the low level.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/base.h"

namespace lsched {

/// Maximum number of elements of a chunk.
inline constexpr std::uint64_t k_chunk = 4096;

/// Returns the size in bytes of a message with `slots` slots. `residual` is f32 or f64. Without slots, a message has no
/// bytes.
constexpr std::uint64_t chunk_message_bytes(dtype residual, std::uint64_t slots) {
  return slots == 0 ? 0 : size_of(residual) + (2 * slots + 7) / 8 + (12 * slots + 7) / 8;
}

/// The kernels for chunks of one type of residual. They follow the rules of sparse.h.
struct chunk_kernels {
  /// Writes a message with `slots` slots, at least 1. Its elements are residual[places[i]] for i < count. `places` must
  /// ascend, and `count` must not exceed `slots`. Writes to `places`.
  void (*encode)(const void* residual, std::uint16_t* places, std::size_t count, std::size_t slots, std::byte* message);

  /// Writes the elements of a message as a list (sparse.h) with values of the residual's type. Returns the length of
  /// this list. Indices are relative to the chunk. An index of at least `elements` is left out, so that a damaged
  /// message cannot reach other memory. `items` must have room for `slots` items.
  std::size_t (*decode)(const std::byte* message, std::size_t slots, std::uint64_t elements, std::byte* items);

  /// Subtracts the values of a list from the residual. A difference that is not finite becomes 0.
  void (*subtract)(const std::byte* items, std::size_t count, void* residual);
};

/// Returns the kernels for a residual of f32 or f64.
const chunk_kernels& chunk_kernels_of(dtype residual);

}  // namespace lsched
