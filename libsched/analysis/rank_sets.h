// Sets of ranks, each kept once and named by a number.
//
// Sets are lists of intervals. What schedules know of each other ("the 2^k ranks before me") is one or two intervals,
// so that a world of P ranks needs far fewer than P words for each op.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ops/base.h"

namespace lsched {

class rank_sets {
 public:
  using id = std::uint32_t;
  static constexpr id k_empty = 0;

  rank_sets() { keep({}); }

  id single(rank r) { return keep({{r, r + 1}}); }
  /// The ranks that are in at least `least` of the sets; least >= 1.
  id in_at_least(std::size_t least, std::span<const id> sets);
  id united(id x, id y);

  bool contains(id set, rank r) const;
  /// The least rank that is not in the set.
  rank first_missing(id set) const;

  struct interval {
    rank first = 0, end = 0;
    friend auto operator<=>(const interval&, const interval&) = default;
  };
  /// Ascending, with gaps between them.
  std::span<const interval> intervals(id set) const { return *contents_[set]; }

 private:
  using content = std::vector<interval>;

  /// Of two sets that are not empty.
  static content merged(const content& x, const content& y);
  id keep(const content& wanted);

  std::map<content, id> ids_;
  std::unordered_map<std::uint64_t, id> unions_;  ///< that have been asked for: lesser id << 32 | the other
  std::vector<const content*> contents_;          ///< by id; in ids_
  std::vector<std::pair<rank, int>> ends_;        ///< of the intervals of all sets: +1 begins, -1 ends
};

}  // namespace lsched
