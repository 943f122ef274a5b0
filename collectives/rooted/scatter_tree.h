// Scatter(v) down a tree that is spread around the root.
//
//   flat       the root sends everybody its block, nearest ranks first                             1 hop
//   binomial   a k-nomial tree of radix 2, or `radix`: a rank gets what its subtree gets, and sends it on
//
// The mirror image of gather (gather_tree.h): the root sends straight from the input, nothing is sent to
// whoever gets nothing, and blocks go in segments under the same conditions.
#pragma once

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// Each appends a scatter of the ranks' blocks from the root's `input` to everybody's `output`.
fragment add_scatter_flat(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);
fragment add_scatter_binomial(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);

extern const algorithm k_scatter_flat, k_scatter_binomial, k_scatterv_flat, k_scatterv_binomial;

}  // namespace lsched
