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

#include <vector>

#include "collectives/algorithm.h"

namespace lsched {

/// `body`, of one input and one output, named "partial_" and its own name, with an activation in front: what was a root
/// waits for the gate. `merge` combines offers that missed their round. Failures: ARGUMENT (no policy, not one input and
/// one output, already partial), CONSTRAINT (not declared synchronising, unless the policy is full).
result<schedule_ptr> with_activation(const schedule& body, const activation& starts, kernel merge);

/// Partial allreduce by recursive doubling, and by a tree. Any P, any count; never in place.
result<schedule_ptr> partial_allreduce(world place, const shape& data, const activation& starts);
result<schedule_ptr> partial_allreduce_tree(world place, const shape& data, const activation& starts);

/// Entries of the registry: by each algorithm that an allreduce has, but the circulant one, which sends blocks with the
/// contributions of different ranks in one message.
std::vector<algorithm> partial_allreduces();

}  // namespace lsched
