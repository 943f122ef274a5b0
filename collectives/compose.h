// Makes schedules from algorithms. In a dense schedule, every rank contributes to every round. In a partial schedule,
// an activation (activation.h) starts each round, and the dense algorithm follows, for the whole vector or for each
// bucket of it.
//
//       call ─┐                                                         ┌─► collective of the first bucket ──┐
//        R_0 ─┼─any─► gate: capture the contribution into the input ────┼─► …                                ├─► exit
//        ...  ┘        (nothing offered: the input is null)             └─► collective of the last bucket  ──┘
//
// The capture copies the application's contribution into the input. If the application has offered nothing, the input
// is null: the rank contributes nothing. A partial collective is an activation followed by the collective of the same
// name without "partial_". That collective is synchronising, which bounds how far a rank can run ahead, so that one
// register (op.h) for each signal edge suffices. A round ends when the exits of all buckets have completed. Ops of the
// activation that never fire, because another rank woke this rank first, do not delay the end. In a partial allgather,
// the blocks of ranks that contributed nothing are zero.
#pragma once

#include <optional>

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// Returns the schedule of one rank, named "collective/algorithm". Fails if validate() or builder::compile() fails.
result<schedule_ptr> compose(const algorithm& how, world place, const shape& data, const activation& starts = {});

/// Returns the partial form of `dense`: an activation, then `dense`. Returns nothing if the collective is not
/// synchronising, if it has no partial form, or if the messages of the algorithm mix contributions. A partial algorithm
/// never works in place. For a vector without elements, the partial form uses an allreduce by recursive doubling in
/// place of `dense`. `dense` must outlive the result.
std::optional<algorithm> partial_of(const algorithm& dense);

/// Returns the cost of one round. `data` counts elements, whereas the argument of algorithm::cost_of counts units
/// (shape::unit). For partial algorithms, `signals` is exact. `hops` is then an upper bound: the hops from a call to
/// the last rank that it reaches, plus the hops of the collective.
cost cost_of_round(const algorithm& how, rank size, const shape& data, const activation& starts);

}  // namespace lsched
