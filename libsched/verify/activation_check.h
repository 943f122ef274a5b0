// Checks the activation of a partial schedule. A capture is an op that takes a contribution. The activation consists of
// the ops before the captures. Through these ops, the calls of some ranks start the round on all ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "libsched/postcondition/postcondition.h"
#include "libsched/verify/assembly.h"
#include "libsched/verify/memo.h"

namespace lsched {

/// The cost of a round up to the captures, if only as many ranks call as the round needs.
struct wake_cost {
  /// For each capture: maximum number of hops (messages and signals in sequence) before the capture, over all sets of
  /// callers
  std::vector<std::uint32_t> hops{};
  std::vector<std::uint64_t> signals{};  ///< number of signals for each set of callers, indexed by the first caller
};

/// Checks property `activation` of a world of partial schedules:
///
///   - If no rank calls, no rank captures, sends or signals.
///   - Any set of calls that is just large enough starts the round on every rank, with the number of signals that
///     `promise` declares. With one call less, the round starts on no rank. With a grace, these statements hold if the
///     grace passes.
///   - With a grace that has not passed, the round starts on every rank when all remaining ranks have called, and on no
///     rank before.
///   - A round that waits for all ranks starts on each rank only by the call of this rank.
///
/// Sets total.hops and total.signals_of_one. `order`: the ops that fire if every capture completes, in topological
/// order, with each send before its receive. `known`: activations that have already passed this check, or nullptr.
/// (Most partial schedules with the same number of ranks have the same activation.)
void check_activation(const assembly& all, const std::vector<world_op>& order, const postcondition& promise,
                      memo<wake_cost>* known, cost& total, finding_list& out);

}  // namespace lsched
