// Boundaries that follow what is selected, which drifts: in every round each rank counts its items in a few parts of
// each region, and by the sums of these counters the boundaries become quantiles again. That is fewer words than a look
// (quantiles.h), and it needs one behind it: it finds only what differs from part to part.
//
// Parts are dealt out by width: a region of so few elements that each is a part has no more, and what it spares, wider
// ones have. In a wide one most parts are equal; up to half of them, or 16, divide the two outermost of these, and get
// shorter towards the ends: what is dense may end just behind a boundary, and be part of a region that is empty
// otherwise.
#pragma once

#include <span>
#include <vector>

#include "collectives/sparse/protocol/problem.h"

namespace lsched {

/// How many counters, u64: 16 for each region, but 8192 at most, or 1 for each if there are more regions than that;
/// none if the rule is `averaged`.
std::uint64_t drift_bins(const sparse_problem& of);

/// The parts of all regions, in their order. One thread at a time.
class region_parts {
 public:
  /// Allocates 8 bytes for each counter. There are none until the first divide.
  explicit region_parts(const sparse_problem& of);

  /// Divides the regions between these boundaries: P+1. O(P log counters + counters). Does nothing if there are no
  /// counters.
  void divide(std::span<const std::uint64_t> boundaries);

  /// Writes how many items there are in each part: drift_bins numbers, the last of them zeros if there are less parts.
  /// selected: by position in the vector. O(selected + counters).
  void count(item_list selected, std::span<std::uint64_t> counters) const;

  /// Writes the P+1 boundaries that follow from all ranks' sums: ascending, 0 first and `count` last. Within a part,
  /// items are taken to be spread evenly. If there are no counters, or nobody has an item, `boundaries` stay as they
  /// are. O(counters + P).
  void move(std::span<const std::uint64_t> sums, std::span<std::uint64_t> boundaries) const;

 private:
  dtype type_;
  std::vector<std::uint64_t> ends_;  ///< of parts; one begins where the one before ends. Beyond the last: its end
  std::size_t parts_ = 0;
};

}  // namespace lsched
