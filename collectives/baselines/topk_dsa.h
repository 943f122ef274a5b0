// TopkDSA: the vector has one region for each rank, and every list is cut at the boundaries of the regions. Each rank
// adds up the parts of all lists in its region. Then all ranks receive the sums of all regions. A sum is sent as items,
// or as the values of all elements of the region if these values are not longer. (This is the dynamic sparse allreduce
// by split and allgather of Renggli and others, SparCML, SC 2019. Unlike in the paper, the form is chosen for each
// region.)
//
//   select      residual += gradient; the k largest, one list for each region
//   split       list r to rank r                        up to k (P - 1) items arrive at a rank
//   reduce      the sum of all lists of the rank's own region, in rank order, as a block
//   allgather   of all blocks, in rank order, after an allgather of their lengths
//   settle      blocks become the result; sent items leave the residual; the update is the result / P
//
// Regions are equal parts of the vector. In messages, indices count from the first element of their region. In the
// result, they count from the first element of the vector.
//
// The length of a block is counted in units, and a unit has the size of an item. The values of a region of n elements
// occupy the smallest number of units that can hold n values. A sum with fewer items than this number is sent as items,
// and any other sum is sent as values. So the length determines the form.
#pragma once

#include <vector>

#include "collectives/sparse/sparse_allreduce.h"
#include "collectives/sparse/steps/lists.h"
#include "libsched/schedule/geometry.h"

namespace lsched {

/// Returns the number of units that the values of a region occupy. The last unit is padded with zero bytes.
constexpr std::uint64_t units_of_values(dtype type, std::uint64_t region) {
  return (region * size_of(type) + item_size(type) - 1) / item_size(type);
}

/// Returns the number of units of the block for a sum with `items` items in a region. A block is never longer than the
/// region's values.
constexpr std::uint64_t units_of_block(dtype type, std::uint64_t region, std::uint64_t items) {
  return std::min(items, units_of_values(type, region));
}

/// Appends the algorithm. `problem` must be valid (validate()). functions_of_topk_dsa() returns the functions that the
/// schedule calls. Blocks are gathered by dissemination, for any P. The algorithm is synchronising: no rank ends before
/// every rank has begun.
fragment add_topk_dsa(builder& to, const sparse_problem& problem, const sparse_ends& ends);
std::shared_ptr<sparse_functions> functions_of_topk_dsa(const sparse_problem& problem, sparse_state& state);

/// The computations of one rank. Allocates in the constructor. Used by one thread at a time. Between select() and
/// settle(), the residual includes the gradient, so a round that fails loses nothing.
class topk_dsa : public round_end {
 public:
  explicit topk_dsa(const sparse_problem& problem);

  std::uint64_t list_room() const { return room_; }           ///< maximum number of items in all lists of a rank
  std::uint64_t list_room(rank region) const;                 ///< maximum number of items in a rank's list for a region
  std::uint64_t block_room(rank region) const;                ///< maximum number of units in a region's block
  std::uint64_t result_room() const { return result_room_; }  ///< maximum number of items in a result

  /// Writes the lists of all regions to `items`, one after the other. Writes the lengths of the lists to lengths[0 …
  /// P). `residual` has `count` elements of residual_of(type). `gradient` has `count` elements, or is nullptr.
  void select(std::byte* residual, const std::byte* gradient, top_k_hint& hint, std::byte* items,
              std::span<std::uint64_t> lengths);

  /// Writes the sum of `lists` as a block, and returns the block's number of units. `lists` has the lists of this
  /// rank's region, one from each rank, in rank order.
  std::uint64_t reduce(std::span<const item_list> lists, std::byte* block);

  /// Returns true if a block of `units` units contains values. Also returns true for the block of an empty region.
  bool is_values(rank region, std::uint64_t units) const {
    return units == units_of_values(problem_.type, regions_.size(index(region)));
  }

  /// Ends a round. `blocks` has the blocks of all regions, in order, with lengths in units. Writes the items of all
  /// blocks to `result`, and returns the number of items. Removes sent items from the residual. `update` has `count`
  /// elements, or is nullptr (round_end).
  std::uint64_t settle(std::span<const item_list> blocks, std::byte* result, std::byte* residual, std::byte* update);

 private:
  static std::uint64_t index(rank region) { return static_cast<std::uint64_t>(region); }

  sparse_problem problem_;
  cut regions_;
  std::uint64_t room_;
  std::uint64_t result_room_;
  own_top_k own_;
  item_list sent_;  ///< output of select; belongs to own_
  region_sum sum_;
  std::vector<std::byte> sums_;  ///< sums of the rank's own region
};

}  // namespace lsched
