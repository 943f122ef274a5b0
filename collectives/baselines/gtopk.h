// gTopk: lists are added pairwise up a tree. Only the k largest items (by magnitude) of each sum are kept, and sent to
// the parent. (Shi and others, A Distributed Synchronous SGD Algorithm with Global Top-k Sparsification for Low
// Bandwidth Networks, ICDCS 2019.)
//
//   select    residual += gradient; the k largest are the rank's partial result
//   up        from child to parent: the child's partial result, which the parent adds; k items are kept
//   down      from parent to child: the root's partial result, which is the result of all ranks
//             and with `exact`, a bitmap of the items from the child that are part of the result
//   settle    items that have arrived leave the residual; the update is the result / P
//
// The algorithm works with any tree over any number of ranks. In the binomial tree with root 0 (knomial of radix 2), a
// rank merges its children in ascending order. So each sum combines two adjacent ranges of ranks, with the lower ranks
// on the left.
//
// As published, a rank considers a value as sent if its index is in the result. But a value can be dropped on the way
// up, although values of other ranks later bring the same index into the result. Such a value is lost. `exact` tracks
// each contribution instead. After each merge, a rank examines each list that it has added so far. In each list, the
// rank marks the items that are still in the partial result. On the way down, the rank combines these marks with the
// bitmap for its own partial result.
#pragma once

#include <vector>

#include "collectives/sparse/sparse_allreduce.h"
#include "collectives/sparse/steps/lists.h"

namespace lsched {

/// Rule for the values that a rank considers as sent.
enum class arrival_rule : std::uint8_t {
  published,  ///< values whose index is in the result
  exact       ///< values that are part of the result, so that nothing is lost
};

/// Appends the algorithm on the binomial tree. `problem` must be valid. functions_of_gtopk() returns the functions that
/// the schedule calls. The algorithm is synchronising: no rank ends before every rank has begun.
fragment add_gtopk(builder& to, const sparse_problem& problem, const sparse_ends& ends, arrival_rule rule);
std::shared_ptr<sparse_functions> functions_of_gtopk(const sparse_problem& problem, sparse_state& state,
                                                     arrival_rule rule);

/// The computations of one rank. Allocates in the constructor. Used by one thread at a time. Between select() and
/// settle(), the residual includes the gradient, so a round that fails loses nothing.
class gtopk : public round_end {
 public:
  /// `children` is the number of children of this rank in the tree.
  gtopk(const sparse_problem& problem, arrival_rule rule, std::uint32_t children);

  std::uint64_t list_room() const { return room_; }  ///< maximum number of items of a list

  /// Begins a round. Writes the rank's partial result, and returns its length. `residual` has `count` elements of
  /// residual_of(type). `gradient` has `count` elements, or is nullptr.
  std::uint64_t select(std::byte* residual, const std::byte* gradient, top_k_hint& hint, std::byte* items);

  /// Adds the list of the next child. Writes the new partial result, and returns its length. `items` may be the memory
  /// of `partial`, and must be disjoint from the child's list.
  std::uint64_t merge(item_list partial, item_list child, std::byte* items);

  /// Processes the parent's bitmap for this rank's last partial result, which this rank has sent to the parent. Must be
  /// called only with `exact`, on every rank except the root. Bit i % 64 of survivors[i / 64] is set if item i is part
  /// of the result. Bits behind the last item are ignored.
  void learn(item_list partial, std::span<const std::uint64_t> survivors);

  /// Returns the bitmap for the list of child `child`, in bitmap_words(list_room()) words. Must be called only with
  /// `exact`. The root calls this function after the last merge(), and other ranks call it after learn(). Bits behind
  /// the last item are zero.
  std::span<const std::uint64_t> survivors_of(std::uint32_t child) const { return parts_[child + 1].survivors; }

  /// Ends a round. `result` is the root's partial result. `update` has `count` elements, or is nullptr (round_end).
  void settle(item_list result, std::byte* residual, std::byte* update);

 private:
  /// A list that this rank has added to its partial result.
  struct part {
    std::vector<std::uint32_t> indices;
    std::vector<std::uint64_t> survivors;  ///< one bit for each item
  };

  void take_up(item_list list);
  void strike(part& from, item_list partial, const std::uint64_t* survivors) const;
  item_list arrived();

  arrival_rule rule_;
  std::uint64_t room_;
  own_top_k own_;
  item_list sent_;                 ///< output of select; belongs to own_
  std::vector<std::byte> merged_;  ///< buffer with capacity for two lists
  std::vector<part> parts_;        ///< this rank's own list, then the lists of its children
  std::size_t n_parts_ = 0;
};

}  // namespace lsched
