// Causal history: of which ranks it is certain, at each op, that they have entered the round.
//
// A rank has entered when its capture has completed, or its call, or, where it has neither, when its round has begun.
// What an op knows is the union over the ops it waits for; over an op that needs fewer tokens than it has deps, only
// what enough of them know. A receive adds what its sender knew.
#pragma once

#include <vector>

#include "libsched/verify/assembly.h"
#include "libsched/verify/rank_sets.h"

namespace lsched {

class causal_history {
 public:
  /// `order`: what fires in every execution, each op after all it waits for, sends before their receives.
  causal_history(const assembly& all, const std::vector<world_op>& order);

  /// Some rank that `r` may not have heard of when its round ends; k_no_rank: none.
  rank unheard_of(rank r) const;

  /// Whether the receive is certain to be posted before its message is sent. Claimed only for receives that are posted
  /// when their rank enters or begins.
  bool is_expected(world_op receive) const;

 private:
  const assembly& all_;
  rank_sets sets_;
  std::vector<world_op> entry_;            ///< by rank; k_no_world_op: the beginning of the round
  std::vector<rank_sets::id> when_fired_;  ///< by op
  std::vector<rank_sets::id> at_end_;      ///< by rank
};

}  // namespace lsched
