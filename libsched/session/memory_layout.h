// Which of a schedule's inputs and outputs share memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "libsched/engine/engine.h"

namespace lsched {

/// A schedule is made for memory in place, or for memory that does not overlap (postcondition/aliasing.h). Memory that
/// is bound later has to have the same layout. Empty buffers lie anywhere.
struct memory_layout {
  bool in_place = false;            ///< the k-th input and the k-th output share memory, for every k
  std::int64_t aliasing_bytes = 0;  ///< in place, from the first output's beginning to the first input's; others: 0

  /// Whether a first input and a first output lie like that.
  bool fits(std::span<const std::byte> input, std::span<const std::byte> output) const;

  /// Why a schedule's memory does not lie like that; nothing if it does. Outputs overlap with nothing; in place, each
  /// shares memory with the input of its number, and with that alone.
  std::optional<std::string> words_for_misfit(const schedule& program, const binding& memory) const;
};

/// The layout of a caller's own schedule, by the memory that it is given first: in place where the input and the output
/// of a number, the first of which neither is empty, begin together; or, of number 0, lie one within the other,
/// elements on elements.
memory_layout layout_of(const schedule& program, const binding& memory);

}  // namespace lsched
