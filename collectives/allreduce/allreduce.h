// Allreduce by recursive doubling, for every P by a fold (Thakur, Rabenseifner and Gropp, 2005).
//
//   fold      an extra sends its input to its proxy, which combines the two
//   step j    core ranks across dimension j exchange what they have and combine it     j = 0 … L-1
//   unfold    a proxy sends the result to its extra
//
// Each combination takes the operand of the lower ranks first. All ranks evaluate one expression tree, so
// they hold the same bits, and its leaves are in rank order, so the kernel need not commute. On the wire:
// core * L + 2 * rem messages of `count` elements, in L + 2 steps at most. Latency-optimal, and the choice
// for short vectors; each rank moves L times the vector. Synchronising.
#pragma once

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// Appends an allreduce of `data.count` elements from `input` to `output`. With `data.in_place` the two are
/// different buffers of the schedule over the same memory: no op writes the output before all local readers
/// of the input have completed.
fragment add_allreduce(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);

extern const algorithm k_allreduce_recursive_doubling;

}  // namespace lsched
