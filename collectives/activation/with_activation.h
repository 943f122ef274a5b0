// An activation in front of synchronising collectives: what makes a partial collective of them.
//
//       call ─┐                                                         ┌─► collective of the first bucket ──┐
//        R_0 ─┼─any─► gate: capture the contribution into the input ────┼─► …                                ├─► exit
//        ...  ┘        (nothing offered: the input is null)             └─► collective of the last bucket  ──┘
//
// The collectives must be synchronising: that is what bounds how far a rank can run ahead, and what makes one
// register per signal edge enough. Ops of the activation that never fire, because others woke the rank first,
// are not waited for: the round ends with the exits of all collectives.
//
// Where the collective calls functions, these see to it that what is absent is: they take nothing in its place, and
// what they make is there in any case (functions.h). Who contributes cannot be told by the pieces of what they
// read: several ranks' lists travel in one message, and a message of empty lists not at all. So beside the collective
// goes an allreduce of the contributions' first element, in which contributions are counted as in any other; the
// function that makes the result goes by it:
//
//       gate ─┬─► collective: select ─► … ─► settle ─► exit
//             └─► allreduce of one element ────┘
#pragma once

#include <span>

#include "collectives/algorithm/generator.h"

namespace lsched {

/// `bodies`, each of one input and one output, behind one activation: a round has one draw, one capture and one set of
/// contributors for all of them. The input is the bodies' inputs one after the other, and so is the output. What was a
/// root waits for the gate. `merge` combines offers that missed their round; a sum where functions are called. The name
/// is "partial_" and that of the first body. Failures: ARGUMENT (no policy, no bodies, of different places or types,
/// not one input and one output, already partial; a body that calls functions and is not the only one, or whose result
/// is of another making than one function's that has no operand b), CONSTRAINT (not declared synchronising, unless the
/// policy is full).
result<schedule_ptr> with_activation(std::span<const schedule_ptr> bodies, const activation& starts, kernel merge);

}  // namespace lsched
