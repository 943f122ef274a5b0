// Gather(v) up a tree that is spread around the root.
//
//   flat       everybody sends to the root, which receives where the block belongs                 1 hop
//   binomial   a k-nomial tree of radix 2, or `radix`: a rank puts what its subtree has side by side, and sends it on
//
// Every subtree is an interval of ranks (geometry.h, spread_tree), so that the root receives everything where
// it belongs, whichever rank it is. Who has nothing to send sends nothing. Long blocks go in segments if the tree is
// flat, or if `segment` says so. (Thakur, Rabenseifner and Gropp, 2005.)
#pragma once

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// Each appends a gather of the ranks' blocks from everybody's `input` to the root's `output`.
fragment add_gather_flat(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);
fragment add_gather_binomial(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);

extern const algorithm k_gather_flat, k_gather_binomial, k_gatherv_flat, k_gatherv_binomial;

}  // namespace lsched
