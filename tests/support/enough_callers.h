// Computes which calls start a round of a partial collective. Tests compare the library with this independent
// computation.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "libsched/schedule/activation.h"
#include "libsched/schedule/draw.h"

namespace lsched::testing {

/// Returns, for each rank, whether that rank calls. The number of callers is the number of candidates that must call to
/// start the round. The callers are the first candidates in cyclic rank order, beginning with rank `first`. `present`
/// lists the live ranks, in ascending order, and must not be empty.
inline std::vector<bool> enough_callers(const activation& starts, round_no round, rank size,
                                        std::span<const rank> present, rank first) {
  std::vector<bool> callers(static_cast<std::size_t>(size), false);
  const auto [candidates, arrivals] = quota_of(starts, size);
  const bool is_full = starts.is_full(round);
  drawn_ranks drawn(size);
  drawn.draw(starts.seed, round, present, is_full ? size : candidates);
  rank missing = std::min(is_full ? size : arrivals, static_cast<rank>(present.size()));
  for (rank r = first; missing > 0; r = (r + 1) % size) {
    if (!drawn.holds(r)) continue;
    callers[static_cast<std::size_t>(r)] = true;
    --missing;
  }
  return callers;
}

}  // namespace lsched::testing
