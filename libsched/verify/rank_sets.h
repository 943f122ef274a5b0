// Sets of ranks, each kept once and named by a number.
//
// Sets are lists of intervals. What schedules know of each other ("the 2^k ranks before me") is one or two intervals,
// so that a world of P ranks needs far fewer than P words for each op.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "ops/base.h"

namespace lsched {

class rank_sets {
 public:
  using id = std::uint32_t;
  static constexpr id k_empty = 0;

  rank_sets();

  id single(rank r);
  /// The ranks that are in at least `least` of the sets; least >= 1.
  id in_at_least(std::size_t least, std::span<const id> sets);
  id united(id x, id y);

  bool contains(id set, rank r) const;
  /// The least rank that is not in the set.
  rank first_missing(id set) const;

 private:
  struct interval {
    rank first = 0, end = 0;
    friend bool operator==(const interval&, const interval&) = default;
  };
  std::span<const interval> at(id set) const {
    return std::span(intervals_).subspan(first_[set], first_[set + 1] - first_[set]);
  }
  id keep(std::span<const interval> content);

  std::vector<interval> intervals_;
  std::vector<std::size_t> first_;
  std::unordered_multimap<std::uint64_t, id> known_;  ///< by hash
  std::vector<std::pair<rank, int>> ends_;            ///< of the intervals of all sets: +1 begins, -1 ends
  std::vector<interval> fresh_;
};

}  // namespace lsched
