// The activation: the ops before the captures of a partial schedule, by which calls wake ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "libsched/postcondition/postcondition.h"
#include "libsched/verify/assembly.h"
#include "libsched/verify/memo.h"

namespace lsched {

/// The effects, up to the captures, of the smallest sets of calls that start a round.
struct wake_cost {
  std::vector<std::uint32_t> hops{};     ///< by capture, ascending: maximum over all sets of callers
  std::vector<std::uint64_t> signals{};  ///< by first caller
};

/// Checks property `activation` of a partial world:
///
///   - If no rank calls, no rank captures, sends or signals.
///   - Any set of calls that is just large enough wakes every rank, with the signals that `promise` declares. With one
///     call less, no rank wakes.
///   - In rounds that wait for all ranks, each rank wakes by its own call alone.
///
/// Sets the hops of a round, and the signals of a single call, in `total`. `order`: the ops that fire once every
/// capture is given, each after all ops that it waits for, sends before their receives. `known`: activations that were
/// found to wake every rank, or nullptr. Most partial schedules with the same number of ranks have the same activation,
/// so each activation is tried once.
void check_activation(const assembly& all, const std::vector<world_op>& order, const postcondition& promise,
                      memo<wake_cost>* known, cost& total, finding_list& out);

}  // namespace lsched
