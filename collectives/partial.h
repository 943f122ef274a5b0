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

#include <string>

#include "collectives/generator.h"

namespace lsched {

/// Appends a synchronising collective from `input` to `output` in which nothing fires before `entry`.
using add_collective = fragment (*)(builder& to, const shape& data, buffer_id input, buffer_id output,
                                    op_id entry);

/// The partial form of any such collective whose input and output have `data.count` elements. The gate
/// captures into the only input buffer. The arguments have been checked by the caller.
result<schedule_ptr> make_partial(world place, const shape& data, const activation& starts, std::string name,
                                  add_collective body);

/// Partial allreduce by recursive doubling, and by a tree. Any P, any count; never in place.
result<schedule_ptr> partial_allreduce(world place, const shape& data, const activation& starts);
result<schedule_ptr> partial_allreduce_tree(world place, const shape& data, const activation& starts);

extern const constraints k_partial_allreduce_constraints;

}  // namespace lsched
