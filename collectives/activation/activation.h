// The activation broadcast: how the first call of a round reaches every rank.
//
// A modification of recursive doubling, the union of P binomial trees (Li et al., "Taming unbalanced training
// workloads … with partial collective operations", 2020, section 4.1.1), extended to every P by a fold:
//
//   core rank   R_k   hears from the rank across dimension k            k = 0 … L-1,  L = floor(log2 P)
//               S_k   signals it, on any of: call, R_0 … R_{k-1}, and at a proxy R_x
//   proxy       R_x   hears from its extra
//               S_x   signals its extra, on any of: call, R_0 … R_{L-1}; not R_x, the extra knows already
//   extra       S     signals its proxy on call;   R   hears from it
//   everybody   gate  captures the contribution, on any of: call, all R
//
// One initiator costs exactly P-1 signals: a rank whose virtual index differs from the initiator's in the
// bits k1 < k2 < … is woken along these dimensions in this order, hence once. More initiators only add
// firings (every trigger is "any"), so every rank is woken by every set of initiators. No rank is further
// than L + 2 signals away: extra, proxy, L dimensions, extra. At most core * L + 2 * rem signals in all.
//
// Where it takes k > 1 arrivals, the calls go to one rank, which counts, and wakes the others along a binomial tree:
//
//   rank r > 0   A     signals the coordinator on call;   R   hears from its parent
//   coordinator  A_r   hears from rank r                  r = 1 … P-1
//                n     counts: on any k of: call, A_1 … A_{P-1}
//   everybody    S_c   signals its child c on R, at the coordinator on n
//                gate  captures the contribution on R, at the coordinator on n
//
// At most P-1 arrivals and exactly P-1 signals down the tree, ceil(log2 P) + 1 of them one after the other.
//
// Rounds that wait for everybody open each gate by the own call, which has another op for that: nothing is signalled.
// With a deadline that is so in every round, until a rank that has waited long enough signals all by the ops above.
//
// The exact number holds for a round that nobody has left. A rank that has gone ahead may signal round t+1 to
// one that is still busy with round t; as that register value satisfies round t too, it counts as one more
// wake there, and may fire sends that nobody needs any more. The upper bound holds in any case.
#pragma once

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// Appends the activation, and declares that `starts` starts the schedule. Its exit is the gate, a capture of `count`
/// elements into `target`; its entry is the application's call. Policies of as many arrivals have the same ops: whether
/// a call counts is decided at run time. `merge` combines offers that missed their round. With policy full only the own
/// call opens the gate, and there are no signals. Ops that are added later get higher numbers, so a woken rank signals
/// on before it begins the collective.
fragment add_activation(builder& to, const activation& starts, kernel merge, buffer_id target, std::uint64_t count);

/// What the signals cost: `most`, if every rank's own call counts; `least`, if no more call than it takes (of those,
/// none the coordinator if that is possible); `hops`, the longest way from a call to a gate.
struct activation_cost {
  std::uint64_t most = 0, least = 0, hops = 0;
};
activation_cost cost_of_activation(const activation& starts, rank size);

}  // namespace lsched
