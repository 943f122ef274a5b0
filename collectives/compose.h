// From an algorithm to its schedule: by itself, or behind an activation, in one piece or in buckets.
//
//       call ─┐                                                         ┌─► collective of the first bucket ──┐
//        R_0 ─┼─any─► gate: capture the contribution into the input ────┼─► …                                ├─► exit
//        ...  ┘        (nothing offered: the input is null)             └─► collective of the last bucket  ──┘
//
// A partial collective is that of the registry without "partial_" in its name, started by an activation. The collective
// is synchronising: this bounds how far a rank can run ahead, and makes one register per signal edge enough. Ops of
// the activation that never fire, because other ranks woke this one first, are not waited for: the round ends with the
// exits of all buckets. The blocks of a partial allgather from ranks that contributed nothing are zero.
#pragma once

#include <optional>

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// The schedule of one rank, named "collective/algorithm". Failures: those of validate(), and those of compile.
result<schedule_ptr> compose(const algorithm& how, world place, const shape& data, const activation& starts = {});

/// `dense` behind an activation: for each synchronising collective that has a partial form, unless the algorithm needs
/// everybody. Never in place. A vector without elements goes by recursive doubling. `dense` outlives the answer.
std::optional<algorithm> partial_of(const algorithm& dense);

/// What a round costs, of a request in elements; algorithm::cost_of itself counts units. Of partial algorithms, signals
/// are exact, and hops at most what a call takes to the rank it reaches last plus what the collective takes from there.
cost cost_of_round(const algorithm& how, rank size, const shape& data, const activation& starts);

}  // namespace lsched
