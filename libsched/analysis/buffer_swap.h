// In a buffer swap, the target of an op exchanges memory with an operand. This saves a copy.
//
// If one operand of a reduction is null (no contribution), the result is a copy of the other operand. If the other
// operand and the target are whole buffers in memory of the instance, these two buffers can exchange their memory
// instead. The next op that writes the target then overwrites the operand's value. So the next op must come after all
// readers of this value. It must also come after all readers of values that earlier swaps put into the same memory. If
// the deps of this rank do not ensure this order, the buffers are not swapped.
#pragma once

#include <vector>

#include "libsched/analysis/segments.h"

namespace lsched {

/// States which operands of a compute op may exchange memory with the target.
struct buffer_swap {
  bool of_a = false;
  bool of_b = false;
  friend bool operator==(const buffer_swap&, const buffer_swap&) = default;
};

/// Returns the possible swaps, indexed by op. The target can be an output, but an operand in an output is never
/// swapped. For targets that are written more than once, time and memory grow with the square of the number of ops. So
/// schedules with more than k_most_ordered_ops ops (order.h) have no swaps for such targets.
std::vector<buffer_swap> buffer_swaps_of(const schedule& program, const segment_map& segments);

}  // namespace lsched
