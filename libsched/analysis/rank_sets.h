// Sets of ranks, identified by ids. Equal sets have the same id and are stored once.
//
// A set is stored as a list of intervals. The sets that occur in schedules, such as "the 2^k ranks before this rank",
// have one or two intervals. So a world of P ranks needs far fewer than P words for each op.
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
  /// Returns the ranks that are in `least` or more of the sets. `least` must be positive.
  id in_at_least(std::size_t least, std::span<const id> sets);
  id united(id x, id y);

  bool contains(id set, rank r) const;
  rank first_missing(id set) const;

  struct interval {
    rank first = 0, end = 0;
    friend auto operator<=>(const interval&, const interval&) = default;
  };
  /// Returns the intervals of a set, ascending. No interval touches the next.
  std::span<const interval> intervals(id set) const { return *contents_[set]; }

 private:
  using content = std::vector<interval>;

  /// Returns the union of two sets that are not empty.
  static content merged(const content& x, const content& y);
  id keep(const content& wanted);

  std::map<content, id> ids_;
  std::unordered_map<std::uint64_t, id> unions_;  ///< cache of united(): lesser id << 32 | greater id
  std::vector<const content*> contents_;          ///< intervals of each set, by id; pointers to the keys of ids_
  std::vector<std::pair<rank, int>> ends_;        ///< workspace: ends of intervals, +1 at a start, -1 at an end
};

}  // namespace lsched
