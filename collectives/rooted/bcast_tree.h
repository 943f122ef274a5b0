// Broadcast down a tree, segment by segment.
//
//   flat       the root sends to everybody                                                1 hop
//   binomial   a k-nomial tree of radix 2, or `radix`; whole vectors unless `segment` says otherwise
//
// P-1 times the vector on the wire, in each. A rank passes a segment on when it has it, deepest subtree first; the root
// sends one and the same region to all its children, before the next. Relays receive straight into the output and send
// from there. (Johnsson and Ho, 1989.)
#pragma once

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// Each appends a broadcast of `data.count` elements from the root's `input` to the others' `output`.
fragment add_bcast_flat(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);
fragment add_bcast_binomial(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);

extern const algorithm k_bcast_flat, k_bcast_binomial;

}  // namespace lsched
