// Partial collectives: those of the registry that stay what they are when contributions are null, behind an activation.
#pragma once

#include <vector>

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// Partial allreduce by recursive doubling, and by a tree. Any P, any count; never in place.
result<schedule_ptr> partial_allreduce(world place, const shape& data, const activation& starts);
result<schedule_ptr> partial_allreduce_tree(world place, const shape& data, const activation& starts);

/// Entries of the registry, for each algorithm of adasum, allgather, allreduce and reduce_scatter_block whose messages
/// hold contributions of the same ranks throughout. Not among them: the circulant ones, and allgathers that send
/// several blocks as one. The blocks of an allgather from ranks that contributed nothing are zero. A vector without
/// elements goes by recursive doubling, whatever the name.
std::vector<algorithm> partial_collectives();

}  // namespace lsched
