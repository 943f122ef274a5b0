// Causal history: the ranks that are certain to have entered the round, at each op.
//
// A rank enters the round when its capture completes. A rank without a capture enters when its call completes, and a
// rank without both enters when its round begins. The ranks known at an op are the union of the ranks known at the op's
// deps. If the op needs fewer tokens than it has deps, only ranks that are known at enough deps are known at the op. A
// receive adds the ranks that are known at its send.
#pragma once

#include <vector>

#include "libsched/verify/assembly.h"

namespace lsched {

struct causal_history {
  /// For each rank, a rank whose entry may be unknown when this rank's round ends; k_no_rank: all entries are known.
  std::vector<rank> unheard{};
  /// For each op, whether a receive is certain to be posted before its message is sent. Set only for receives that are
  /// posted when their rank enters or begins.
  std::vector<bool> is_expected{};
};

/// Returns the causal history of a world. `order`: the ops that fire in every execution, each after all ops that it
/// waits for, sends before their receives. `fired_by_end`: whether the op has fired whenever the rank's round ends, by
/// rank and op.
causal_history causal_history_of(const assembly& all, const std::vector<world_op>& order,
                                 const std::vector<std::vector<bool>>& fired_by_end);

}  // namespace lsched
