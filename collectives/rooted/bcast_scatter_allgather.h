// Broadcast as scatter and allgather (van de Geijn and others, 1994), among the P-1 ranks that need the vector.
//
//   scatter     the root cuts the vector into P-1 blocks and sends one to each of the others
//   allgather   each of them sends its block to the P-2 others
//
// (P-1)^2 messages, or more where blocks come in segments, P-1 times the vector in bytes, two hops. No rank sends more
// than the vector once, the root included, so that nobody is a bottleneck: the choice for long vectors. The textbook
// form has P blocks, of which the root gets its own back, and takes more hops. A block is passed on segment by segment
// as it arrives.
#pragma once

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// Appends a broadcast of `data.count` elements from the root's `input` to the others' `output`.
fragment add_bcast_scatter_allgather(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);

extern const algorithm k_bcast_scatter_allgather;

}  // namespace lsched
