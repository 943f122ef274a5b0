// Reduce up a tree that is spread around the root, in rank order wherever the root is.
//
//   flat       everybody sends to the root, which combines, nearest ranks first                  1 hop
//   binomial   a k-nomial tree of radix 2, or `radix`; whole vectors unless `segment` says otherwise
//
// P-1 times the vector on the wire, in each. Every subtree is an interval of ranks, so that a rank can put what a child
// sends before or after what it has (geometry.h, spread_tree): no detour by rank 0, and the kernel need not
// commute.
// The pattern is the binomial tree of Thakur, Rabenseifner and Gropp (2005), once below the root and once above it.
#pragma once

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// Each appends a reduction of `data.count` elements from everybody's `input` to the root's `output`. In place, the
/// root's two buffers may be the same memory.
fragment add_reduce_flat(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);
fragment add_reduce_binomial(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);

extern const algorithm k_reduce_flat, k_reduce_binomial;

}  // namespace lsched
