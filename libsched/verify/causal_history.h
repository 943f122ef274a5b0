// Causal history: of which ranks it is certain, at each op, that they have entered the round.
//
// A rank has entered when its capture has completed, or its call, or, where it has neither, when its round has begun.
// What an op knows is the union over the ops it waits for; over an op that needs fewer tokens than it has deps, only
// what enough of them know. A receive adds what its sender knew.
#pragma once

#include <vector>

#include "libsched/verify/assembly.h"

namespace lsched {

struct causal_history {
  /// By rank: some rank that it may not have heard of when its round ends; k_no_rank: none.
  std::vector<rank> unheard{};
  /// By op: of a receive, whether it is certain to be posted before its message is sent. Claimed only for receives that
  /// are posted when their rank enters or begins.
  std::vector<bool> is_expected{};
};

/// `order`: what fires in every execution, each op after all it waits for, sends before their receives. `fired_by_end`,
/// by rank and op: what has fired whenever the rank's round ends.
causal_history causal_history_of(const assembly& all, const std::vector<world_op>& order,
                                 const std::vector<std::vector<bool>>& fired_by_end);

}  // namespace lsched
