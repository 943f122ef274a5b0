// The check of the activation of a partial schedule. The activation consists of the ops before the captures. By these
// ops, the calls of some ranks wake all ranks, that is, start the round on all ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "libsched/postcondition/postcondition.h"
#include "libsched/verify/assembly.h"
#include "libsched/verify/memo.h"

namespace lsched {

/// The effects, up to the captures, of the smallest sets of calls that start a round.
struct wake_cost {
  /// Maximum number of hops (progress::hops_to) to each capture, over all sets of callers; by capture
  std::vector<std::uint32_t> hops{};
  std::vector<std::uint64_t> signals{};  ///< numbers of signals, by first caller of the set
};

/// Checks property `activation` of a partial world:
///
///   - If no rank calls, no rank captures, sends or signals.
///   - Any set of calls that is just large enough wakes every rank, with the signals that `promise` declares. With one
///     call less, no rank wakes.
///   - In rounds that wait for all ranks, each rank wakes by its own call alone.
///
/// Sets the hops of a round, and the signals of a single call, in `total`. `order`: the ops that fire if every capture
/// completes, each after all ops that it waits for, sends before their receives. `known`: activations that were found
/// to wake every rank, or nullptr. Most partial schedules with the same number of ranks have the same activation, so
/// each activation is tried once.
void check_activation(const assembly& all, const std::vector<world_op>& order, const postcondition& promise,
                      memo<wake_cost>* known, cost& total, finding_list& out);

}  // namespace lsched
