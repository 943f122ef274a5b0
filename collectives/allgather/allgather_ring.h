// Allgather(v) round a ring: in step k, a rank sends on what it has received in step k-1 (Thakur, Rabenseifner and
// Gropp, 2005).
//
// P (P-1) messages, each with one block; P-1 hops. Every rank talks to its neighbours alone, the choice for long blocks
// on a network. Blocks are received where they belong, and sent on from there. With `segment`, blocks travel in
// segments. Synchronising.
#pragma once

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// Appends an allgather of the ranks' blocks from `input` to `output`.
fragment add_allgather_ring(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);

extern const algorithm k_allgather_ring, k_allgatherv_ring;

}  // namespace lsched
