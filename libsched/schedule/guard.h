// Guards: in which rounds an op does anything.
//
// An op whose guard does not hold in a round is *void* in it: it fires when its tokens say so, touches nothing, moves
// nothing, and completes. So tokens flow as ever, and whatever can be said of a round in which all guards hold, that it
// ends above all, can be said of every round. Both ends of an edge have the same guard, and it speaks of what both know
// beforehand: the number of the round, and lengths that are laid out at both.
#pragma once

#include <cstdint>

#include "ops/base.h"

namespace lsched {

struct guard {
  std::uint32_t every = 1;   ///< only in the first round and in every so many-th from there; up to k_longest_period
  bool skips_empty = false;  ///< only if the lists that it moves have items; those it receives are laid out
  friend bool operator==(const guard&, const guard&) = default;
};

inline constexpr std::uint32_t k_longest_period = 1 << 20;
inline constexpr std::size_t k_most_guards = 127;  ///< of a schedule; what op::guard can hold

/// Whether the round is one of those; what is said of lists aside.
constexpr bool is_due(const guard& it, round_no round) { return (round - 1) % it.every == 0; }

}  // namespace lsched
