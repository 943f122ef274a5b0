// Buffer swaps: where the result of an op may be its operand's memory instead of a copy.
//
// Where one operand is null, the result is a copy of the other operand. If operand and target are whole buffers in
// memory of the instance, the two buffers may exchange their memory instead. The operand's value then lies in memory
// that the next op to write the target overwrites. So that op has to come after every reader of the value, and of
// each value that was swapped into it before: by deps of this rank alone, or the buffers are not swapped.
#pragma once

#include <vector>

#include "libsched/analysis/segments.h"

namespace lsched {

/// Of one compute op: whether its target may take over this operand's memory.
struct buffer_swap {
  bool of_a = false;
  bool of_b = false;
  friend bool operator==(const buffer_swap&, const buffer_swap&) = default;
};

/// By op. An output's memory is published, and never given away. Time and memory grow with the square of the number
/// of ops where buffers that may be taken over are written more than once; beyond k_most_ordered_ops (order.h) such
/// targets are left out.
std::vector<buffer_swap> buffer_swaps_of(const schedule& program, const segment_map& segments);

}  // namespace lsched
