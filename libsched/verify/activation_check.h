// The activation: what comes before the captures of a partial schedule, and who wakes whom by it.
#pragma once

#include <cstdint>
#include <vector>

#include "libsched/postcondition/postcondition.h"
#include "libsched/verify/assembly.h"
#include "libsched/verify/memo.h"

namespace lsched {

/// What calls that are just enough to start a round set off, up to the captures.
struct wake_cost {
  std::vector<std::uint32_t> hops{};     ///< by capture, ascending: the most, whoever calls
  std::vector<std::uint64_t> signals{};  ///< by first caller
};

/// Property `activation` of a partial world: nobody captures, sends or signals if nobody calls; any calls that are just
/// enough to start a round wake every rank, with the signals that `promise` declares, and one less wake none; and in
/// rounds that wait for everybody each rank wakes by its own call alone.
///
/// Adds to `total` the hops of a round, and the signals of a single call. `order`: what fires once every capture is
/// given, each op after all it waits for, sends before their receives. `known`: activations that were found to wake
/// every rank, or nullptr. What comes before the captures is the same in most partial schedules of as many ranks,
/// whatever they compute; each is tried once.
void check_activation(const assembly& all, const std::vector<world_op>& order, const postcondition& promise,
                      memo<wake_cost>* known, cost& total, finding_list& out);

}  // namespace lsched
