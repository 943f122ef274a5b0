// Buffer swaps: the target of an op exchanges its memory with an operand, so that no copy is necessary.
//
// If one operand of a reduction is null (no contribution), the result is a copy of the other operand. If this operand
// and the target are whole buffers in memory of the instance, the two buffers may exchange their memory instead. Then
// the value of the operand is in the memory of the target. The next op that writes the target overwrites the value. So
// this op must come after all ops that read the value. It must also come after all ops that read values which earlier
// swaps put into the same memory. If the deps of this rank do not ensure this order, the buffers are not swapped.
#pragma once

#include <vector>

#include "libsched/analysis/segments.h"

namespace lsched {

/// For a compute op: the operands that may exchange memory with the target.
struct buffer_swap {
  bool of_a = false;
  bool of_b = false;
  friend bool operator==(const buffer_swap&, const buffer_swap&) = default;
};

/// Returns the possible swaps, by op. Outputs are never swapped, because the application knows their memory. If targets
/// of swaps are written more than once, time and memory grow with the square of the number of ops. So schedules with
/// more than k_most_ordered_ops ops (order.h) have no swaps for such targets.
std::vector<buffer_swap> buffer_swaps_of(const schedule& program, const segment_map& segments);

}  // namespace lsched
