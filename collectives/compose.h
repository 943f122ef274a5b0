// Creates schedules from algorithms. In a dense schedule, every rank contributes to every round. In a partial schedule,
// an activation (activation.h) starts each round. A dense algorithm follows, for the whole vector or for each bucket (a
// part of the vector).
//
//       call ─┐                                                         ┌─► collective of the first bucket ──┐
//        R_0 ─┼─any─► gate: capture the contribution into the input ────┼─► …                                ├─► exit
//        ...  ┘        (nothing offered: the input is null)             └─► collective of the last bucket  ──┘
//
// If the application has offered no contribution, the input is null, and the rank does not contribute. A partial
// collective is an activation followed by the collective of the same name without "partial_". That collective must be
// synchronising: no rank ends a round before every rank has begun the round. This limits how far a rank can run ahead
// of the others, so one register (op.h) for each signal edge suffices. A round ends when the exits of all buckets have
// completed, even if some ops of the activation have not fired. In a partial allgather, the blocks of ranks that did
// not contribute are zero.
#pragma once

#include <optional>

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// Returns the schedule of one rank, named "collective/algorithm", or the error of validate() or builder::compile().
result<schedule_ptr> compose(const algorithm& how, world place, const shape& data, const activation& starts = {});

/// Returns the partial form of `dense`, which is an activation followed by `dense`. Returns nothing if the collective
/// is not synchronising or has no partial form. Also returns nothing if messages of the algorithm combine contributions
/// of several ranks. A partial algorithm never works in place. For an empty vector, an allreduce by recursive doubling
/// replaces `dense`. `dense` must outlive the result.
std::optional<algorithm> partial_of(const algorithm& dense);

/// Returns the cost of one round. `data` has counts in elements. (The argument of algorithm::cost_of has counts in
/// units, shape::unit.) For partial algorithms, cost::signals is exact, but cost::hops is an upper bound: the longest
/// chain of the activation plus the longest chain of the collective.
cost cost_of_round(const algorithm& how, rank size, const shape& data, const activation& starts);

}  // namespace lsched
