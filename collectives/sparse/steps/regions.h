// The regions of the vector: rank r is the owner of region r. This header computes the boundaries of the regions, and
// the lists that a rank sends to owners.
//
// Regions have equal shares of the selected items, because boundaries are quantiles of the positions of items. Ranks
// find the boundaries together, by an allreduce of a few numbers. Each rank contributes its own numbers, and all ranks
// compute the same boundaries from the sums. There are two kinds of numbers.
//
//   positions   every `period` rounds (a look): each rank counts its items in bins over the whole vector
//   drift       in every round, because the selected positions drift: each rank counts its items in a few parts of
//               each region, and the sums move the boundaries to the quantiles again. Drift needs fewer words than a
//               look. But a look must come first, because drift detects only differences between parts
//
// Parts are assigned by width. A region with few elements has one part for each element, and the remaining parts go to
// wider regions. In a wide region most parts have equal length. Only the two outermost of these parts are divided
// again, into parts that get shorter towards the ends of the region. At most half of all parts, and at most 16, are
// such short parts. They find a range with many items that ends just behind a boundary, in a region that is empty
// otherwise.
#pragma once

#include <span>
#include <vector>

#include "collectives/sparse/steps/problem.h"

namespace lsched {

// ---- positions

/// Returns how many u64 numbers describe the positions.
///
/// Rule `pooled`: the numbers are counters of bins over the vector. All bins but perhaps the last have equal width.
/// There are about 256 bins for each region, but at most 16384. Every bin contains positions, and an empty vector has
/// no bins.
///
/// Rule `averaged`: there are P numbers. Each rank that has items writes its P-1 quantile positions, and then 1. Other
/// ranks write zeros.
std::uint64_t position_bins(const sparse_problem& problem);

/// Writes this rank's position_bins numbers. `selected` ascends by position in the vector. O(selected + bins).
void count_positions(const sparse_problem& problem, item_list selected, std::span<std::uint64_t> bins);

/// Writes the P+1 boundaries that follow from the sums over all ranks, ascending from 0 to `count`. Two equal
/// boundaries enclose an empty region. Items are assumed to be spread evenly within a bin. Regions are equal if no rank
/// has an item. O(bins + P).
void place_boundaries(const sparse_problem& problem, std::span<const std::uint64_t> sums,
                      std::span<std::uint64_t> boundaries);

// ---- drift

/// Returns the number of u64 counters: 16 for each region, but at most 8192 in total. If there are more than 8192
/// regions, each region has 1 counter. With rule `averaged`, there are no counters.
std::uint64_t drift_bins(const sparse_problem& problem);

/// The parts of all regions, in order. Used by one thread at a time.
class region_parts {
 public:
  /// Allocates 8 bytes for each counter. There are no parts before the first call of divide.
  explicit region_parts(const sparse_problem& problem);

  /// Divides the regions between these P+1 boundaries. Does nothing if there are no counters. O(P log counters +
  /// counters).
  void divide(std::span<const std::uint64_t> boundaries);

  /// Writes drift_bins numbers: the number of items in each part, then zeros if there are fewer parts than counters.
  /// `selected` ascends by position in the vector. O(selected + counters).
  void count(item_list selected, std::span<std::uint64_t> counters) const;

  /// Writes the P+1 boundaries that follow from the sums over all ranks, ascending from 0 to `count`. Items are assumed
  /// to be spread evenly within a part. Without counters, or if no rank has an item, `boundaries` stay unchanged.
  /// O(counters + P).
  void move(std::span<const std::uint64_t> sums, std::span<std::uint64_t> boundaries) const;

 private:
  dtype type_;
  std::vector<std::uint64_t> ends_;  ///< end of each part, which is the start of the next part
  std::size_t parts_ = 0;
};

// ---- lists for owners

/// With policy `defer`, returns the maximum number of items that a rank may send to the rank `distance` places behind
/// it on the ring. k is divided into P shares of floor(k/P) items, and some shares have one more item. The rank's own
/// share (distance 0) is the first to have one more item. The other shares take turns from round to round, so that
/// every pair of ranks gets a share with one more item sooner or later, even if k < P.
///
/// A rank sends k - ceil(k/P) items to others in total, which is at most k (P-1)/P. A capacity depends only on distance
/// and round. So the number of items that an owner receives from others is a sum over the same distances 1 … P-1, and
/// is also at most k (P-1)/P. The exception is k = 1. Then the capacity of one item moves around the whole ring,
/// distance 0 included, because otherwise no rank would ever send an item. So a rank sends and receives 1 item in all
/// rounds except those in which distance 0 has the capacity.
///
/// The result is equal on all ranks that agree on the round.
std::uint64_t capacity_at(const sparse_problem& problem, rank distance, round_no round);

/// Returns the number of items below a position. The search begins at item `from`. O(log of the distance from `from` to
/// the result).
std::uint64_t items_below(dtype type, item_list list, std::uint64_t from, std::uint64_t position);

/// Writes the lists for the owners of regions 0, 1, …, one after the other, each ascending by index. Returns the number
/// of all items. `selected` is the list of rank place.self, with positions in the vector. There are P+1 boundaries and
/// P lengths. `items` must have capacity for all selected items, may be overwritten up to that capacity, and must be
/// disjoint from `selected`. With `defer`, each region's list has only the largest items, up to capacity_at() of the
/// owner.
std::uint64_t split(const sparse_problem& problem, round_no round, item_list selected,
                    std::span<const std::uint64_t> boundaries, std::byte* items, std::span<std::uint64_t> lengths);

}  // namespace lsched
