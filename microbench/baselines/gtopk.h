// gTopk: lists are added pairwise up a tree, and only the k largest of each sum go on. (Shi and others, A Distributed
// Synchronous SGD Algorithm with Global Top-k Sparsification for Low Bandwidth Networks, ICDCS 2019.)
//
//   select    residual += gradient; the k largest are the rank's partial result
//   up        from child to parent: the child's partial result; merge adds it, and keeps the k largest
//   down      from parent to child: the root's partial result, which is everybody's
//             and with `exact`, a bitmap: which of the items that the child sent up are part of it
//   settle    the residual gives away what arrived; the update is the result / P
//
// Any tree over any number of ranks. In the binomial one with root 0 (knomial of radix 2), whose children a rank
// merges in ascending order, sums are of neighbours, lower ranks on the left.
//
// As published, a rank takes a value for sent if its index is in the result. But what was dropped on the way is lost if
// other ranks' values bring the index back: the leak. `exact` goes by each contribution. A rank notes for each list
// that it has added whether its items are still there after each merge; on the way down this meets what became of the
// rank's own partial result.
#pragma once

#include <vector>

#include "collectives/sparse/sparse_allreduce.h"
#include "collectives/sparse/steps/lists.h"

namespace lsched {

/// Which values a rank takes for sent.
enum class arrival_rule : std::uint8_t {
  published,  ///< those whose index is in the result
  exact       ///< those that are part of the result: nothing is lost
};

/// Appends the algorithm on the binomial tree for a valid `problem`, and what it calls. Synchronising.
fragment add_gtopk(builder& to, const sparse_problem& problem, const sparse_ends& ends, arrival_rule rule);
std::shared_ptr<sparse_functions> functions_of_gtopk(const sparse_problem& problem, sparse_state& state,
                                                     arrival_rule rule);

/// What one rank computes. Allocates when made; one thread at a time. Between select and settle the residual holds all
/// of residual + gradient: a round that is given up loses nothing.
class gtopk : public round_end {
 public:
  /// A rank with so many children in the tree.
  gtopk(const sparse_problem& problem, arrival_rule rule, std::uint32_t children);

  std::uint64_t list_room() const { return room_; }                  ///< items of every list, at most
  std::uint64_t bitmap_room() const { return bitmap_words(room_); }  ///< u64 of every bitmap

  /// Begins a round, and writes the rank's partial result to `items`; answers its length. residual: count elements of
  /// residual_of(type); gradient: count elements, or nullptr.
  std::uint64_t select(std::byte* residual, const std::byte* gradient, top_k_hint& hint, std::byte* items);

  /// Adds what the next child has sent, and writes the new partial result to `items`; answers its length. `items` may
  /// be where the partial result lies; it is disjoint from the child's list.
  std::uint64_t merge(item_list partial, item_list child, std::byte* items);

  /// exact, of all ranks but the root: what the parent says of this rank's last partial result, which it has sent up.
  /// Bit i % 64 of survivors[i / 64]: item i is part of the result. Bits behind the last item do not matter.
  void learn(item_list partial, std::span<const std::uint64_t> survivors);

  /// exact, after learn, and at the root after the last merge: the same of what the i-th child has sent; bitmap_room()
  /// words, bits behind the last item are zero.
  std::span<const std::uint64_t> survivors_of(std::uint32_t child) const { return parts_[child + 1].survivors; }

  /// `result`: the root's partial result; update: count elements, or nullptr (round_end).
  void settle(item_list result, std::byte* residual, std::byte* update);

 private:
  /// A list that this rank has added to its partial result.
  struct part {
    std::vector<std::uint32_t> indices;
    std::vector<std::uint64_t> survivors;  ///< by item
  };

  void take_up(item_list list);
  void strike(part& from, item_list partial, const std::uint64_t* survivors) const;
  item_list arrived();

  arrival_rule rule_;
  std::uint64_t room_;
  own_top_k own_;
  item_list sent_;                 ///< what select found; belongs to own_
  std::vector<std::byte> merged_;  ///< two lists
  std::vector<part> parts_;        ///< this rank's own list, then those of its children
  std::size_t n_parts_ = 0;
};

}  // namespace lsched
