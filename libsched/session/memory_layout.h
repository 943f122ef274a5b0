// Which of a schedule's inputs and outputs may share memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "libsched/engine/engine.h"

namespace lsched {

/// A schedule is made for memory in place, or for memory that does not overlap. Memory that is bound later has to have
/// the same layout.
struct memory_layout {
  bool in_place = false;            ///< the k-th input and the k-th output share memory (postcondition/aliasing.h)
  std::int64_t aliasing_bytes = 0;  ///< in place, from the first output's beginning to the first input's

  /// Whether the first input and the first output lie like that. Empty ones lie anywhere.
  bool fits(std::span<const std::byte> input, std::span<const std::byte> output) const;

  /// Whether all of a schedule's memory does: an output overlaps with no other output, and with no input but its own.
  bool fits(const schedule& program, const binding& memory) const;
};

/// The layout of a caller's own schedule, by the memory that it is given first: in place if the first input and the
/// first output overlap and one lies within the other.
memory_layout layout_of(const schedule& program, const binding& memory);

}  // namespace lsched
