// TopkDSA: lists are cut into one part for each rank, which adds up its region; then everybody gets every region, as
// items or, where these would take more room, as it is. (Renggli and others, SparCML, SC 2019: dynamic sparse
// allreduce by split and allgather. Which form, is decided here for each region.)
//
//   select      residual += gradient; the k largest, one list for each region
//   split       list r to rank r                        up to k (P - 1) items arrive, on one rank if regions are skewed
//   reduce      the sum of all lists of the own region, in rank order, as a block
//   allgather   of all blocks, in rank order, after one of their lengths
//   settle      blocks become the result; the residual gives away what was sent; the update is the result / P
//
// Regions are equal parts of the vector. Indices of what travels count from the first element of their region; those of
// the result are the vector's.
//
// A block's length is in units of an item's bytes. A region of n elements takes as many units as would hold n values;
// a sum that has fewer items travels as these, all others as values. So the length says which of them it is.
#pragma once

#include <vector>

#include "collectives/sparse/sparse_allreduce.h"
#include "collectives/sparse/steps/lists.h"
#include "libsched/schedule/geometry.h"

namespace lsched {

/// Units of a region's values, the last one filled up with zero bytes.
constexpr std::uint64_t units_of_values(dtype type, std::uint64_t region) {
  return (region * size_of(type) + item_size(type) - 1) / item_size(type);
}

/// Units of a block, of a sum that has so many items of a region. More than the values are values.
constexpr std::uint64_t units_of_block(dtype type, std::uint64_t region, std::uint64_t items) {
  return std::min(items, units_of_values(type, region));
}

/// Appends the algorithm for a `problem` that validate() accepts, and what it calls. Blocks are gathered by
/// dissemination, any P. Synchronising.
fragment add_topk_dsa(builder& to, const sparse_problem& problem, const sparse_ends& ends);
std::shared_ptr<sparse_functions> functions_of_topk_dsa(const sparse_problem& problem, sparse_state& state);

/// What one rank computes. Allocates when made; one thread at a time. Between select and settle the residual holds all
/// of residual + gradient: a round that is given up loses nothing.
class topk_dsa : public round_end {
 public:
  explicit topk_dsa(const sparse_problem& problem);

  std::uint64_t list_room() const { return room_; }           ///< items of all lists of a rank together
  std::uint64_t list_room(rank region) const;                 ///< items of a rank's list of a region
  std::uint64_t block_room(rank region) const;                ///< units of a region's block
  std::uint64_t result_room() const { return result_room_; }  ///< items that a result has at most

  /// Writes the lists of all regions to `items`, one behind the other, and their lengths to lengths[0 … P). residual:
  /// count elements of residual_of(type); gradient: count elements, or nullptr.
  void select(std::byte* residual, const std::byte* gradient, top_k_hint& hint, std::byte* items,
              std::span<std::uint64_t> lengths);

  /// `lists`: of this rank's region, one from each rank, in rank order. Writes their sum as a block, and answers its
  /// units.
  std::uint64_t reduce(std::span<const item_list> lists, std::byte* block);

  /// Whether a block of so many units is values. Of an empty region, it is.
  bool is_values(rank region, std::uint64_t units) const {
    return units == units_of_values(problem_.type, regions_.size(index(region)));
  }

  /// `blocks`: of all regions, in their order, counted in units. Writes their items to `result`, and answers how many
  /// these are; takes what select found from the residual; update: count elements, or nullptr (round_end).
  std::uint64_t settle(std::span<const item_list> blocks, std::byte* result, std::byte* residual, std::byte* update);

 private:
  static std::uint64_t index(rank region) { return static_cast<std::uint64_t>(region); }

  sparse_problem problem_;
  cut regions_;
  std::uint64_t room_;
  std::uint64_t result_room_;
  own_top_k own_;
  item_list sent_;  ///< what select found; belongs to own_
  region_sum sum_;
  std::vector<std::byte> sums_;  ///< of the own region
};

}  // namespace lsched
