// The activation: a broadcast of signals by which the first call of a round wakes every rank. An R op below waits for a
// signal, and an S op sends one. The gate of a rank is its capture op, which copies the application's contribution. The
// collective begins after the gate.
//
// The signals follow recursive doubling, the union of P binomial trees (Li et al., "Taming unbalanced training
// workloads … with partial collective operations", 2020, section 4.1.1). A fold (geometry.h) extends the pattern to
// every P:
//
//   core rank   R_k   receives from the rank across dimension k        k = 0 … L-1,  L = floor(log2 P)
//               S_k   signals that rank, on any of: call, R_0 … R_{k-1}, and at a proxy R_x
//   proxy       R_x   receives from its extra
//               S_x   signals its extra, on any of: call, R_0 … R_{L-1}; not on R_x, which comes from the extra
//   extra       S     signals its proxy on call;   R   receives from its proxy
//   every rank  gate  captures the contribution, on any of: call, all R
//
// One initiator costs exactly P-1 signals. A rank whose virtual index differs from the initiator's in the bits k1 < k2
// < … is woken along these dimensions in this order, hence once. More initiators only make more ops fire, because an op
// fires on any one of its triggers. So every set of initiators wakes every rank. No rank is further than L + 2 signals
// away: extra, proxy, L dimensions, extra. There are at most core * L + 2 * rem signals.
//
// If a round needs k > 1 arrivals, all calls are signalled to one rank, the coordinator. The coordinator counts the
// calls and wakes the other ranks along a binomial tree:
//
//   rank r > 0   A     signals the coordinator on call;   R   receives from its parent
//   coordinator  A_r   receives from rank r              r = 1 … P-1
//                n     counts: on any k of: call, A_1 … A_{P-1}
//   every rank   S_c   signals its child c on R, at the coordinator on n
//                gate  captures the contribution on R, at the coordinator on n
//
// There are at most P-1 arrivals and exactly P-1 signals down the tree. The longest chain has ceil(log2 P) + 1 signals.
//
// In rounds that wait for all ranks, each gate is opened by the rank's own call, through a separate op, and no rank
// signals. With a deadline, every round begins this way. A rank whose wait exceeds the deadline then signals all ranks
// by the ops above.
//
// The number of P-1 signals is exact until a rank leaves the round. A rank that is ahead may signal round t+1 to a rank
// that is still in round t. The signal sets the receiver's register (op.h) to t+1, which satisfies round t too. So the
// signal acts as one more wake in round t, and may fire sends that no rank needs any more. The upper bound of core * L
// + 2 * rem signals always holds.
#pragma once

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// Appends the activation, and declares that rounds start by the policy in `starts`. The exit is the gate, a capture of
/// `count` elements into `target`. The entry is the application's call. Policies with the same number of arrivals have
/// the same ops, because the engine decides in each round which calls start the round. `merge` combines contributions
/// that were offered too late for their round. With policy full, only the rank's own call opens the gate, and there are
/// no signals. Ops that are added later get higher numbers, so that a woken rank forwards signals before it begins the
/// collective.
fragment add_activation(builder& to, const activation& starts, kernel merge, buffer_id target, std::uint64_t count);

/// The cost of the signals. `most`: maximum number of signals, if every rank calls. `least`: number of signals if only
/// as many ranks call as the policy needs, and if these are ranks other than the coordinator where possible. `hops`:
/// length of the longest chain of signals from a call to a gate.
struct activation_cost {
  std::uint64_t most = 0, least = 0, hops = 0;
};
activation_cost cost_of_activation(const activation& starts, rank size);

}  // namespace lsched
