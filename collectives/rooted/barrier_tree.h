// Barrier by a k-nomial tree of radix 4, or `radix`: "all below me have entered" goes up to rank 0, "all have" comes
// down.
//
// 2 (P-1) signals, the fewest there can be without a message that says more than one thing, and twice as many hops as
// the tree is deep: the choice where ranks share cores, and every signal wakes somebody. Synchronising.
#pragma once

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// Appends a barrier: no rank's exit completes before every rank's `entry` has.
fragment add_barrier_tree(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);

extern const algorithm k_barrier_tree;

}  // namespace lsched
