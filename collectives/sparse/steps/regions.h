// The regions of the vector: rank r is the owner of region r. This header declares the computation of the boundaries,
// and of the lists that a rank sends to owners.
//
// Boundaries are quantiles of the positions of the selected items, so that regions have equal shares of these items.
// The ranks determine the boundaries by an allreduce: each rank contributes a few numbers, and all ranks compute the
// same boundaries from the sums. There are two kinds of numbers.
//
//   positions   every `period` rounds: each rank counts its items in bins over the whole vector
//   drift       in every round: each rank counts its items in a few parts of each region, and the sums correct the
//               boundaries. Drift needs fewer words than positions, and suffices between the rounds that count
//               positions, because the positions of large elements change slowly
//
// A region with few elements has one part for each element, and the remaining parts are assigned to wider regions. In a
// wide region, most parts have equal length. Only the first and the last of these parts are divided again, into parts
// that get shorter towards the ends of the region. At most half of a region's parts, and at most 16, are such short
// parts. Short parts detect a dense range of items just behind a boundary, in a region that is otherwise empty.
#pragma once

#include <span>
#include <vector>

#include "collectives/sparse/steps/problem.h"

namespace lsched {

// ---- positions

/// Returns the number of u64 values that describe a rank's positions.
///
/// Rule `pooled`: the values are counters of bins over the vector. All bins except perhaps the last have equal width.
/// There are about 256 bins for each region, but at most 16384. Every bin covers at least one element, so an empty
/// vector has no bins.
///
/// Rule `averaged`: there are P values. A rank with items writes its P-1 quantile positions, and then 1, so that the
/// last sum is the number of such ranks. Other ranks write zeros.
std::uint64_t position_bins(const sparse_problem& problem);

/// Writes this rank's position_bins(problem) values. `selected` must be ascending by position in the vector. O(selected
/// + bins).
void count_positions(const sparse_problem& problem, item_list selected, std::span<std::uint64_t> bins);

/// Computes the P+1 boundaries, ascending from 0 to `count`, from the sums of count_positions() over all ranks. Regions
/// may be empty. Items are assumed to be evenly distributed within a bin. If no rank has an item, all regions have the
/// same size. O(bins + P).
void place_boundaries(const sparse_problem& problem, std::span<const std::uint64_t> sums,
                      std::span<std::uint64_t> boundaries);

// ---- drift

/// Returns the number of u64 counters for drift. Up to 512 regions have 16 counters each. More regions share 8192
/// counters. If there are more than 8192 regions, each region has 1 counter. With rule `averaged`, there are no
/// counters.
std::uint64_t drift_bins(const sparse_problem& problem);

/// The parts of all regions, in order. Used by one thread at a time.
class region_parts {
 public:
  /// Allocates 8 bytes for each counter. There are no parts before the first call of divide().
  explicit region_parts(const sparse_problem& problem);

  /// Divides the regions between the P+1 boundaries into parts. Does nothing if there are no counters. O(P log counters
  /// + counters).
  void divide(std::span<const std::uint64_t> boundaries);

  /// Writes drift_bins(problem) values: the number of items in each part, and zeros for surplus counters. `selected`
  /// must be ascending by position in the vector. O(selected + counters).
  void count(item_list selected, std::span<std::uint64_t> counters) const;

  /// Computes the P+1 boundaries, ascending from 0 to `count`, from the sums of the counters over all ranks. Items are
  /// assumed to be evenly distributed within a part. If there are no counters, or no rank has an item, `boundaries` is
  /// unchanged. O(counters + P).
  void move(std::span<const std::uint64_t> sums, std::span<std::uint64_t> boundaries) const;

 private:
  dtype type_;
  std::vector<std::uint64_t> ends_;  ///< end of each part, which is the start of the next part
  std::size_t parts_ = 0;
};

// ---- lists for owners

/// With policy `defer`, returns the maximum number of items that rank r may send to rank r + distance (mod P). k is
/// divided into P shares of floor(k/P) items. k mod P of the shares get an additional item. The rank's own share
/// (distance 0) is the first to get an additional item. For the other shares, the additional items are assigned in
/// turn, from round to round. So every pair of ranks gets an additional item sooner or later, even if k < P.
///
/// So a rank sends at most k - ceil(k/P) items to others, which is at most k (P-1)/P. The capacity depends only on
/// distance and round. So the owner of a region also receives at most k - ceil(k/P) items from others. Exception: if k
/// = 1, all distances, 0 included, get the single item in turn. Otherwise no rank would ever send an item.
///
/// `round` must be equal on all ranks.
std::uint64_t capacity_at(const sparse_problem& problem, rank distance, round_no round);

/// Returns the number of items whose positions are below `position`. The positions of all items before item `from` must
/// be below `position`. O(log(result - from)).
std::uint64_t items_below(dtype type, item_list list, std::uint64_t from, std::uint64_t position);

/// Writes one list for the owner of each region to `items`, in region order. Writes the lengths of these P lists to
/// `lengths`. Returns the total number of items. `selected` is this rank's list, with positions in the vector as
/// indices. There are P+1 boundaries and P lengths. `items` must have capacity for all selected items, and must be
/// disjoint from `selected`. The whole capacity may be overwritten. With `defer`, each list has only the largest items,
/// up to capacity_at() of the owner.
std::uint64_t split(const sparse_problem& problem, round_no round, item_list selected,
                    std::span<const std::uint64_t> boundaries, std::byte* items, std::span<std::uint64_t> lengths);

}  // namespace lsched
