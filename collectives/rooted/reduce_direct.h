// Reduce by blocks (Rabenseifner, 2004, with all exchanges direct): a reduce-scatter, then a gather to the root.
//
//   1   everybody sends block q to the owner of block q, which combines it over all ranks
//   2   the owners send their results to the root
//
// P blocks, the root's own among them. About the vector leaves any rank and twice the vector enters one, whatever P is,
// and the arithmetic is spread evenly: the choice for long vectors. Blocks go in segments; P^2 - 1 messages for each of
// the segments of a block. In rank order.
#pragma once

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// Appends a reduction of `data.count` elements from everybody's `input` to the root's `output`. In place, the root's
/// two buffers may be the same memory.
fragment add_reduce_direct(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);

extern const algorithm k_reduce_direct;

}  // namespace lsched
