// The layout of a schedule's memory: which inputs and outputs share memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "libsched/engine/engine.h"

namespace lsched {

/// The layout for which a schedule was created: either in place, or without overlap (postcondition/aliasing.h). Memory
/// that is bound later must have the same layout. Empty buffers may lie anywhere.
struct memory_layout {
  bool in_place = false;            ///< the k-th input and the k-th output share memory, for every k
  std::int64_t aliasing_bytes = 0;  ///< in place: distance from the first output to the first input, in bytes; else 0

  /// Returns whether a first input and a first output have this layout.
  bool fits(std::span<const std::byte> input, std::span<const std::byte> output) const;

  /// Returns the reason why the memory does not have this layout, or nothing if it does. Outputs must not overlap each
  /// other, nor any input. In place, each output shares memory with the input of the same number, and with no other
  /// input.
  std::optional<std::string> words_for_misfit(const schedule& program, const binding& memory) const;
};

/// Returns the layout of a schedule built by hand, from the memory that is bound first. The first pair that has no
/// empty buffer decides (pair n: input n and output n). The layout is in place if both buffers of the pair begin at the
/// same address. Pair 0 is also in place if one buffer lies within the other and the elements of both coincide.
memory_layout layout_of(const schedule& program, const binding& memory);

}  // namespace lsched
