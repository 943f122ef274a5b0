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
// The exact number holds for a round that nobody has left. A rank that has gone ahead may signal round t+1 to
// one that is still busy with round t; as that register value satisfies round t too, it counts as one more
// wake there, and may fire sends that nobody needs any more. The upper bound holds in any case.
#pragma once

#include "collectives/generator.h"

namespace lsched {

/// Appends the activation. Its exit is the gate, a capture of `count` elements into `target`; its entry is
/// the application's call. Solo and majority have the same ops: whether a call counts is decided at run time.
/// `merge` combines offers that missed their round. With policy full only the own call opens the gate, and
/// there are no signals. Ops that are added later get higher numbers, so a woken rank signals on before it
/// begins the collective.
fragment add_activation(builder& to, activation_policy policy, kernel merge, buffer_id target, extent count);

}  // namespace lsched
