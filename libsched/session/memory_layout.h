// A memory layout describes which inputs and outputs of a schedule share memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "libsched/engine/engine.h"

namespace lsched {

/// The layout for which a schedule was created. Inputs and outputs either share memory (in place,
/// postcondition/aliasing.h) or do not overlap. Memory that is bound later must have the same layout. An empty buffer
/// may have any address.
struct memory_layout {
  bool in_place = false;            ///< the k-th input and the k-th output share memory, for every k
  std::int64_t aliasing_bytes = 0;  ///< in place: distance from the first output to the first input, in bytes; else 0

  /// Returns true if `input` and `output`, the first buffers of a rank, have this layout.
  bool fits(std::span<const std::byte> input, std::span<const std::byte> output) const;

  /// Returns an error text if the memory does not have this layout. Outputs must not overlap each other or any input.
  /// Exception: if the layout is in place, each output must share memory with the input of the same index.
  std::optional<std::string> words_for_misfit(const schedule& program, const binding& memory) const;
};

/// Returns the layout of a user's schedule, from the memory that is bound first. Pair n consists of input n and output
/// n. The first pair without an empty buffer decides: the layout is in place if both buffers begin at the same address.
/// Pair 0 is also in place if one buffer lies within the other, at a multiple of the element size.
memory_layout layout_of(const schedule& program, const binding& memory);

}  // namespace lsched
