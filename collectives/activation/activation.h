// An activation consists of signals (messages without data, op.h). The signals start a round on every rank after some
// ranks have called for the round. A rank is woken when a signal starts the rank's part of the round. An R op below
// waits for a signal, and an S op sends a signal. The gate of a rank is its capture op, which captures the
// application's contribution. The collective begins after the gate.
//
// If a round needs one call, the signals follow recursive doubling, which is the union of P binomial trees. (Li et al.,
// "Taming unbalanced training workloads … with partial collective operations", 2020, section 4.1.1.) A fold
// (geometry.h) extends the pattern to every P:
//
//   core rank   R_k   receives from the rank across dimension k        k = 0 … L-1,  L = floor(log2 P)
//               S_k   signals that rank, after any of: call, R_0 … R_{k-1}, R_x (only at a proxy)
//   proxy       R_x   receives from its extra
//               S_x   signals its extra, after any of: call, R_0 … R_{L-1}; not after R_x, which comes from the extra
//   extra       S     signals its proxy after the call;   R   receives from its proxy
//   every rank  gate  captures the contribution, after any of: call, all R
//
// If one rank calls, exactly P-1 signals are sent. Let k1 < k2 < … be the bits in which the virtual indices of a rank
// and of the caller differ. The rank is woken only along these dimensions, in this order. A second call can only make
// more ops fire, so every set of callers wakes every rank. The longest chain has L + 2 signals: extra to proxy, L
// dimensions, proxy to extra. At most core * L + 2 * rem signals are sent. `core` is the number of core ranks,
// including proxies, and `rem` is the number of extras.
//
// If a round needs k > 1 calls, every rank that calls signals one rank, the coordinator. The coordinator counts the
// calls, and then wakes the other ranks along a binomial tree:
//
//   rank r > 0   A     signals the coordinator after the call;   R   receives from its parent
//   coordinator  A_r   receives from rank r              r = 1 … P-1
//                n     counts: fires after any k of: call, A_1 … A_{P-1}
//   every rank   S_c   signals its child c after R (at the coordinator: after n)
//                gate  captures the contribution after R (at the coordinator: after n)
//
// At most P-1 signals go to the coordinator, and exactly P-1 signals down the tree. The longest chain has ceil(log2 P)
// + 1 signals.
//
// With quorum(K)+grace(T), K < P, the coordinator also counts if K = 1, and has these ops in place of n:
//
//   n_K     counts: fires after any K of: call, A_1 … A_{P-1}
//   grace   completes T us after n_K
//   L_r     stands for the call of rank r = 0 … P-1 after r has left; is complete from the start of such a round
//   n_all   counts: fires after P of: call, A_1 … A_{P-1}, L_0 … L_{P-1}
//   woken   fires after any of: n_all, grace
//
// In a round, either the call of a rank or its L_r counts (round_calls). So n_all fires when all remaining ranks have
// called. The signals and the longest chain are those of quorum(K).
//
// A round that waits for all ranks has no signals. The gate of a rank then waits only for the rank's own call. If the
// schedule can also have rounds with signals, a separate call op is used for rounds without signals. The collective
// waits for all gates. With policy `deadline`, every round begins without signals. If a rank has waited longer than the
// deadline, this rank wakes all ranks by the ops above.
//
// In a round that needs one call, the number of P-1 signals is exact until a rank ends the round. A faster rank can
// signal round t+1 to a rank that is still in round t. The signal sets the receiver's register (op.h) to t+1, which
// also satisfies round t. So the receive op can complete in round t already, and then cause signals that no rank needs.
// The upper bound of core * L + 2 * rem signals always holds.
#pragma once

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// Appends the activation, and declares that rounds start by the policy in `starts`. The entry of the fragment is the
/// application's call, and the exit is the gate, a capture of `count` elements into `target`. Policies that need the
/// same number of calls have the same ops, because the engine decides in each round which calls have an effect. `merge`
/// combines a late contribution with the rank's next contribution. With policy `full`, the gate waits only for the
/// rank's own call, and there are no signals. Must be called before the ops of the collective are appended, so that a
/// woken rank forwards signals before it begins the collective.
fragment add_activation(builder& to, const activation& starts, kernel merge, buffer_id target, std::uint64_t count);

/// The cost of the signals. `most` is the maximum number of signals, which is reached if every rank calls. `least` is
/// the number of signals if only as many ranks call as the policy needs. (`least` assumes that the coordinator does not
/// call, unless the policy needs all ranks.) `hops` is the length of the longest chain of signals from a call to a
/// gate.
struct activation_cost {
  std::uint64_t most = 0, least = 0, hops = 0;
};
activation_cost cost_of_activation(const activation& starts, rank size);

}  // namespace lsched
