// Buffer swaps: the target of an op takes over an operand's memory instead of a copy.
//
// If one operand is null, the result is a copy of the other operand. If operand and target are whole buffers in memory
// of the instance, the two buffers may exchange their memory instead. The operand's value then lies in memory that the
// next op to write the target overwrites. So that op must come after every reader of the value, and after every reader
// of each value that was swapped into that memory before. If deps of this rank alone do not ensure this order, the
// buffers are not swapped.
#pragma once

#include <vector>

#include "libsched/analysis/segments.h"

namespace lsched {

/// Operands of a compute op whose memory its target may take over.
struct buffer_swap {
  bool of_a = false;
  bool of_b = false;
  friend bool operator==(const buffer_swap&, const buffer_swap&) = default;
};

/// Returns the swaps of each op. An output's memory is published, and never given away. If targets of swaps are written
/// more than once, time and memory grow with the square of the number of ops. Beyond k_most_ordered_ops (order.h) such
/// targets are left out.
std::vector<buffer_swap> buffer_swaps_of(const schedule& program, const segment_map& segments);

}  // namespace lsched
