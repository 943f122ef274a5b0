// Adasum of what one rank of every node has, to all ranks: the place of these owners is the root. They combine it by
// halving and doubling between nodes, and each sends the result to all others of its node (adasum_nodes.h).
// On one node that is its owner's contribution, and the schedule's name says so.
#pragma once

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// Appends the adaptive sum of `data.count` elements from owners' `input` to all ranks' `output`.
fragment add_node_adasum(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);

extern const algorithm k_node_adasum_halving;

}  // namespace lsched
