// Regions of the vector, one for each rank, which owns it: their boundaries, and the lists that a rank sends to owners.
//
// Regions have equal shares of the selected items, because boundaries are quantiles of the positions of items. Ranks
// find the boundaries together, by an allreduce of a few numbers. Each rank contributes its own numbers, and all ranks
// compute the same boundaries from the sums. There are two kinds of numbers.
//
//   positions   every `period` rounds, a look: bins over the whole vector
//   drift       in every round, because the selected positions drift: each rank counts its items in a few parts of
//               each region, and the sums move the boundaries to the quantiles again. Drift takes fewer words than a
//               look. But a look must come first, because drift detects only differences between parts
//
// Parts are assigned by width. A region with few elements has one part for each element, and the parts that it saves go
// to wider regions. In a wide region most parts are equal. Up to half of its parts, or 16, divide the two outermost
// equal parts, and get shorter towards the ends. A dense range may end just behind a boundary, in a region that is
// empty otherwise.
#pragma once

#include <span>
#include <vector>

#include "collectives/sparse/steps/problem.h"

namespace lsched {

// ---- positions

/// Returns how many numbers of positions, u64, there are.
///
/// `pooled`: bins of equal width over the vector, except perhaps the last bin. There are about 256 bins for each
/// region, but at most 16384. Every bin contains positions, and an empty vector has no bins.
///
/// `averaged`: P numbers, which are the sums of each of the P-1 quantile positions, and the number of ranks that have
/// items.
std::uint64_t position_bins(const sparse_problem& problem);

/// Writes this rank's position_bins numbers. `selected` ascends by position in the vector. O(selected + bins).
void count_positions(const sparse_problem& problem, item_list selected, std::span<std::uint64_t> bins);

/// Writes the P+1 boundaries that follow from the sums over all ranks, ascending from 0 to `count`. Two equal
/// boundaries enclose an empty region. Items are assumed to be spread evenly within a bin. Regions are equal if no rank
/// has an item. O(bins + P).
void place_boundaries(const sparse_problem& problem, std::span<const std::uint64_t> sums,
                      std::span<std::uint64_t> boundaries);

// ---- drift

/// Returns the number of counters, u64: 16 for each region, but at most 8192. With more regions than that, it is 1 for
/// each region. It is 0 if the rule is `averaged`.
std::uint64_t drift_bins(const sparse_problem& problem);

/// The parts of all regions, in order. Used by one thread at a time.
class region_parts {
 public:
  /// Allocates 8 bytes for each counter. There are no parts before the first call of divide.
  explicit region_parts(const sparse_problem& problem);

  /// Divides the regions between these P+1 boundaries. Does nothing if there are no counters. O(P log counters +
  /// counters).
  void divide(std::span<const std::uint64_t> boundaries);

  /// Writes drift_bins numbers: the number of items in each part, and zeros if there are fewer parts. `selected`
  /// ascends by position in the vector. O(selected + counters).
  void count(item_list selected, std::span<std::uint64_t> counters) const;

  /// Writes the P+1 boundaries that follow from the sums over all ranks, ascending from 0 to `count`. Items are assumed
  /// to be spread evenly within a part. Without counters, or if no rank has an item, `boundaries` stay unchanged.
  /// O(counters + P).
  void move(std::span<const std::uint64_t> sums, std::span<std::uint64_t> boundaries) const;

 private:
  dtype type_;
  std::vector<std::uint64_t> ends_;  ///< end of each part, where the next part begins; beyond the last part: its end
  std::size_t parts_ = 0;
};

// ---- lists for owners

/// Returns the most items that a rank may send to the rank `distance` places behind it on the ring, with policy
/// `defer`. k is divided into P shares of floor(k/P), and some shares have one more. The rank's own share (distance 0)
/// is the first to have one more. The other shares take turns from round to round, so that every pair gets one sooner
/// or later, even if k < P.
///
/// A rank sends k - ceil(k/P) items to others in total, which is at most k (P-1)/P. A capacity depends only on distance
/// and round. So the items that an owner receives from others are the same sum over distances 1 … P-1, and also at most
/// k (P-1)/P. The exception is k = 1. The turn of the only item goes around the whole ring, the rank itself included,
/// because otherwise no rank would ever send an item. Then 1 item is sent and received in all rounds except the rank's
/// own turn.
///
/// The result is equal on all ranks that agree on the round.
std::uint64_t capacity_at(const sparse_problem& problem, rank distance, round_no round);

/// Returns the number of items below a position. The search begins at item `from`. O(log of the result's distance from
/// there).
std::uint64_t items_below(dtype type, item_list list, std::uint64_t from, std::uint64_t position);

/// Writes the lists for the owners of regions 0, 1, …, one after the other, each ascending by index. Returns the number
/// of all items. `selected` is the list of rank place.self, with positions in the vector. There are P+1 boundaries and
/// P lengths. `items` must have room for all selected items, may be overwritten up to that size, and must be disjoint
/// from them. With `defer`, each region's list has only the first items of the order by magnitude, up to the capacity
/// of its owner.
std::uint64_t split(const sparse_problem& problem, round_no round, item_list selected,
                    std::span<const std::uint64_t> boundaries, std::byte* items, std::span<std::uint64_t> lengths);

}  // namespace lsched
