// THE firing rule. Whoever interprets a schedule calls this and nothing else: the engine, the verifier, and the
// symbolic world of the tests.
//
//   1. An op has one integer, `need`: how many of its incoming tokens it waits for.
//      need == in-degree is "all", need == 1 is "any", anything between is a quorum; need == 0 is a root.
//   2. In one round an op fires at most once: at the moment its need-th token arrives. Firing consumes the
//      trigger; tokens that arrive later in that round are absorbed.
//   3. A completed op gives one token to each of its successors. Tokens never cross rounds: a counter carries
//      the round it belongs to, so re-arming a schedule touches no counter.
//
// Invariant: for a fixed round, `deliver` returns true exactly once per op if need >= 1 and at least `need`
// tokens are delivered, and never otherwise. (tests/libsched/firing_test.cc holds it against a reference for
// every DAG of up to five ops; docs/firing.md has the pictures.)
#pragma once

#include <cstdint>

#include "ops/base.h"

namespace lsched {

/// Tokens an op has received, and the round they belong to.
struct token_count {
  round_no stamp = 0;
  std::uint32_t tokens = 0;
};

/// Gives one token of `round` to an op that needs `need` of them. Answers whether the op fires now.
constexpr bool deliver(token_count& count, std::uint32_t need, round_no round) {
  if (count.stamp != round) count = {round, 0};
  return ++count.tokens == need;
}

/// A signal register holds the highest round known active; it satisfies every round up to that.
constexpr bool satisfies(std::uint64_t register_value, round_no round) { return register_value >= round; }

/// What a register holds once its writer will never signal again.
inline constexpr round_no k_last_round = ~round_no{0};

}  // namespace lsched
