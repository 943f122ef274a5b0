// Makes schedules from algorithms: the dense algorithm alone, or behind an activation, as a whole or in buckets.
//
//       call ─┐                                                         ┌─► collective of the first bucket ──┐
//        R_0 ─┼─any─► gate: capture the contribution into the input ────┼─► …                                ├─► exit
//        ...  ┘        (nothing offered: the input is null)             └─► collective of the last bucket  ──┘
//
// A partial collective is an activation followed by the collective of the same name without "partial_". That collective
// is synchronising, which bounds how far a rank can run ahead, so that one register for each signal edge suffices. A
// round ends with the exits of all buckets. It does not wait for ops of the activation that never fire because other
// ranks woke this rank first. In a partial allgather, the blocks of ranks that contributed nothing are zero.
#pragma once

#include <optional>

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// Returns the schedule of one rank, named "collective/algorithm". Fails if validate() or builder::compile() fails.
result<schedule_ptr> compose(const algorithm& how, world place, const shape& data, const activation& starts = {});

/// Returns `dense` behind an activation. Returns nothing if the collective is not synchronising, if it has no partial
/// form, or if the messages of the algorithm mix contributions. A partial algorithm never works in place. A vector
/// without elements uses recursive doubling. `dense` must outlive the result.
std::optional<algorithm> partial_of(const algorithm& dense);

/// Returns the cost of a round, for a request in elements. algorithm::cost_of counts units. For partial algorithms,
/// `signals` is exact. `hops` is then an upper bound: the hops from a call to the last rank that it reaches, plus the
/// hops of the collective.
cost cost_of_round(const algorithm& how, rank size, const shape& data, const activation& starts);

}  // namespace lsched
