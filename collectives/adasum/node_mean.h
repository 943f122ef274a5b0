// The mean inside every node, to one rank of each: the place of the owner is the root. One hop: all others send it
// their vector, and it adds them up in the order of ranks and divides (adasum_nodes.h).
//
// With `node_adasum` it is what partition-parallel training does for a layer (Maleki and others, "Scaling distributed
// training with adaptive summation", arXiv:2006.02924, section 4.3): the owner alone has the optimizer's state of it.
#pragma once

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// Appends the means of `data.count` elements, from all ranks' `input` to owners' `output`.
fragment add_node_mean(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);

extern const algorithm k_node_mean_direct;

}  // namespace lsched
