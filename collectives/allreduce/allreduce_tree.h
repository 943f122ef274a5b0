// Allreduce by a k-nomial tree: reduce to rank 0, then broadcast.
//
//   up      a rank combines its input with what its children send, in their order, and sends that to its parent
//   down    the root's result comes back the same way
//
// 2 * (P-1) messages of `count` elements, the fewest there can be, against P log2 P of recursive doubling; twice as
// many hops. So it is the choice wherever messages cost more than hops do: where ranks share cores, and every
// message wakes somebody. One expression in rank order is evaluated once, so all ranks hold the same bits, and the
// kernel need not commute. Synchronising.
#pragma once

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// Appends an allreduce of `data.count` elements from `input` to `output`; as add_allreduce.
fragment add_allreduce_tree(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);

extern const algorithm k_allreduce_tree;

}  // namespace lsched
