// The causal history of an op is the set of ranks that have certainly entered the round when the op fires.
//
// A rank enters the round when its capture completes. A rank without a capture enters when its call completes, and a
// rank with neither enters when its round begins. A rank is known at an op if the causal history of the op contains the
// rank. If an op waits for all its deps, a rank that is known at any of the deps is known at the op. If the op waits
// for only k of its n deps, the rank must be known at n - k + 1 deps or more, because any k deps then include such a
// dep. A receive adds the ranks that are known at its send.
#pragma once

#include <vector>

#include "libsched/verify/assembly.h"

namespace lsched {

struct causal_history {
  /// For each rank r: a rank that has possibly not entered when the round of r ends, or k_no_rank.
  std::vector<rank> unheard{};
  /// For each op, true if the op is a receive that is certainly posted before its message is sent. Computed only for
  /// receives that are posted when their rank enters or begins the round.
  std::vector<bool> is_expected{};
};

/// Returns the causal history of a world. `order`: the ops that fire in every execution, in topological order, with
/// each send before its receive. `fired_by_end`: by rank and op, true if the op has always fired when the rank's round
/// ends.
causal_history causal_history_of(const assembly& all, const std::vector<world_op>& order,
                                 const std::vector<std::vector<bool>>& fired_by_end);

}  // namespace lsched
