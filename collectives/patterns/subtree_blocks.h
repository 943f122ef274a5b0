// Of gathers and scatters alike: which blocks pass each edge of a tree that is spread around the root, and in how many
// messages.
#pragma once

#include <vector>

#include "collectives/patterns/rank_part.h"
#include "libsched/schedule/geometry.h"

namespace lsched {

class subtree_blocks {
 public:
  /// The flat tree. `data` outlives the answer, here and below.
  static subtree_blocks flat(rank size, const shape& data);
  /// A k-nomial tree of radix 2, or `radix`. Blocks go in one message, unless there is a `segment`.
  static subtree_blocks binomial(rank size, const shape& data);

  const spread_tree& tree() const { return tree_; }

  /// Where a rank's block, and its subtree's blocks, begin among those of all ranks, and how many elements they have.
  std::uint64_t begin_of(rank r) const { return offsets_[wide(r)]; }
  std::uint64_t begin_of_subtree(rank r) const { return offsets_[wide(tree_.first_of(r))]; }
  std::uint64_t count_of_subtree(rank r) const { return offsets_[wide(tree_.end_of(r))] - begin_of_subtree(r); }
  /// The messages between a rank and its parent; none of nothing.
  portions pieces_of_subtree(rank r) const;

  /// A message for each piece of each rank but the root.
  cost price() const;

 private:
  subtree_blocks(rank size, const shape& data, rank radix, bool is_whole);

  spread_tree tree_;
  std::vector<std::uint64_t> offsets_;
  const shape& data_;
  bool is_whole_;
};

}  // namespace lsched
