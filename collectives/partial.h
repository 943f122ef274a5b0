// Partial collectives: an activation in front of a synchronising collective.
//
//       call ─┐
//        R_0 ─┼─any─► gate: capture the contribution into the input ──► the collective ──► exit
//        ...  ┘        (nothing offered: the input is null)
//
// The collective must be synchronising: that is what bounds how far a rank can run ahead, and what makes one
// register per signal edge enough. Ops of the activation that never fire, because others woke the rank first,
// are not waited for: the round ends with the collective's exit.
#pragma once

#include "collectives/algorithm.h"

namespace lsched {

/// Partial allreduce by recursive doubling, and by a tree. Any P, any count; never in place.
result<schedule_ptr> partial_allreduce(world place, const shape& data, const activation& starts);
result<schedule_ptr> partial_allreduce_tree(world place, const shape& data, const activation& starts);

extern const algorithm k_partial_allreduce_recursive_doubling, k_partial_allreduce_tree;

}  // namespace lsched
