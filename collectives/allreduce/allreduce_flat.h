// Allreduce in one hop: everybody sends its vector to everybody and combines all of them.
//
//   send      the input to each other rank, the next one first
//   combine   ((x0 op x1) op x2) … op x_{P-1}, each as soon as it and its predecessors are here
//
// P * (P-1) messages of `count` elements, the most there can be, in the fewest hops: for short vectors on few ranks,
// where a hop means waiting for somebody who has to be scheduled first. Every rank evaluates the same expression in
// rank order, so all hold the same bits, and the kernel need not commute. Synchronising.
#pragma once

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// Appends an allreduce of `data.count` elements from `input` to `output`; as add_allreduce.
fragment add_allreduce_flat(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);

extern const algorithm k_allreduce_flat;

}  // namespace lsched
