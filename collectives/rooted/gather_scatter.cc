// Gather(v) and scatter(v) on a tree around the root (geometry.h, spread_tree).
//
//   flat       all ranks exchange their blocks directly with the root                                     1 hop
//   binomial   a k-nomial tree whose radix is `radix`, or 2 if `radix` is 0. In a gather, a rank collects the blocks of
//              its subtree and sends them to its parent. In a scatter, a rank receives the blocks of its subtree, keeps
//              its own block and forwards the others
//
// Every subtree is an interval of ranks, so the blocks of a subtree are adjacent in the root's buffer. A subtree
// without data needs no message. Long blocks are cut into segments if the tree is flat, or if shape::segment is set.
// (Thakur, Rabenseifner and Gropp, 2005.)
#include <algorithm>
#include <cstdlib>
#include <vector>

#include "collectives/patterns/rank_part.h"
#include "collectives/rooted/rooted.h"

namespace lsched {
namespace {

/// The blocks that are sent along each edge of the tree, and their division into messages.
class subtree_blocks {
 public:
  subtree_blocks(rank size, const shape& data, bool is_flat)
      : tree_(size, data.root,
              is_flat           ? std::max(size, 2)
              : data.radix == 0 ? 2
                                : data.radix),
        offsets_(block_offsets(data, size)),
        data_(data),
        is_flat_(is_flat) {}

  const spread_tree& tree() const { return tree_; }

  /// Return the offset of a rank's block, the offset of its subtree's blocks, and the number of elements of its
  /// subtree's blocks.
  std::uint64_t begin_of(rank r) const { return offsets_[wide(r)]; }
  std::uint64_t begin_of_subtree(rank r) const { return offsets_[wide(tree_.first_of(r))]; }
  std::uint64_t count_of_subtree(rank r) const { return offsets_[wide(tree_.end_of(r))] - begin_of_subtree(r); }
  /// Returns the messages between a rank and its parent. For an empty subtree, the result is empty.
  portions pieces_of_subtree(rank r) const {
    const std::uint64_t count = count_of_subtree(r);
    return {count, is_flat_ ? pieces_of(data_, count) : pieces_if_segmented(data_, count)};
  }

 private:
  spread_tree tree_;
  std::vector<std::uint64_t> offsets_;
  const shape& data_;
  bool is_flat_;
};

class block_tree : rank_part {
 public:
  block_tree(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry, bool is_flat)
      : rank_part(to, data, input, output, entry), is_flat_(is_flat), blocks_(size(), data, is_flat) {}

  fragment gather() {
    if (is_root()) {
      for (const rank child : children())
        for_each_piece(
            child, {output(), blocks_.begin_of_subtree(child)},
            [&](std::uint32_t tag, region piece, std::uint64_t count) { end(recv(child, tag, piece, count)); });
      if (!in_place()) end(copy({input(), 0}, {output(), own_begin()}, own_count()));
    } else if (has_any()) {
      // A rank whose subtree has only its own block sends directly from the input.
      const region source{is_alone() ? input() : scratch(subtree_count()), 0};
      const op_id all = is_alone() ? k_no_op : collect_below(source.buffer());
      for_each_piece(self(), source, [&](std::uint32_t tag, region piece, std::uint64_t count) {
        end(send(parent(), tag, piece, count, {all}));
      });
    }
    return finish(true);
  }

  fragment scatter() {
    if (is_root()) {
      pass_on(input(), 0, k_no_op);
      if (!in_place()) end(copy({input(), own_begin()}, {output(), 0}, own_count()));
    } else if (has_any()) {
      // A rank that receives only its own block receives directly into the output.
      const buffer_id held = is_alone() ? output() : scratch(subtree_count());
      const op_id all = nop();
      for_each_piece(self(), {held, 0}, [&](std::uint32_t tag, region piece, std::uint64_t count) {
        order(recv(parent(), tag, piece, count), all);
      });
      if (is_alone())
        end(all);
      else
        distribute(held, all);
    }
    return finish(true);
  }

 private:
  bool is_root() const { return self() == data().root; }
  rank parent() const { return blocks_.tree().parent_of(self()); }
  std::vector<rank> children() const { return blocks_.tree().children_of(self()); }
  std::uint64_t own_count() const { return block_count(data(), self()); }
  std::uint64_t own_begin() const { return blocks_.begin_of(self()); }
  std::uint64_t subtree_begin() const { return blocks_.begin_of_subtree(self()); }
  std::uint64_t subtree_count() const { return blocks_.count_of_subtree(self()); }
  bool has_any() const { return blocks_.pieces_of_subtree(self()).number() > 0; }
  bool is_alone() const { return subtree_count() == own_count(); }

  /// Appends the receives from the children. Returns an op after which the blocks of the subtree are in `held`.
  op_id collect_below(buffer_id held) {
    const op_id all = nop();
    for (const rank child : children())
      for_each_piece(
          child, {held, blocks_.begin_of_subtree(child) - subtree_begin()},
          [&](std::uint32_t tag, region piece, std::uint64_t count) { order(recv(child, tag, piece, count), all); });
    if (own_count() > 0) order(copy({input(), 0}, {held, own_begin() - subtree_begin()}, own_count()), all);
    return all;
  }

  /// Distributes the blocks of the subtree. These blocks are in `held` after op `all`.
  void distribute(buffer_id held, op_id all) {
    pass_on(held, subtree_begin(), all);
    if (own_count() > 0) end(copy({held, own_begin() - subtree_begin()}, {output(), 0}, own_count(), {all}));
  }

  /// Sends the children's blocks from `held`. The first element of `held` has offset `begin` in the root's buffer. In a
  /// binomial tree, the largest subtrees are served first, because their blocks need the most hops.
  void pass_on(buffer_id held, std::uint64_t begin, op_id when) {
    std::vector<rank> below = children();
    const auto distance = [&](rank r) { return std::abs(r - self()); };
    std::ranges::stable_sort(below, {}, [&](rank r) { return is_flat_ ? distance(r) : -distance(r); });
    for (const rank child : below)
      for_each_piece(
          child, {held, blocks_.begin_of_subtree(child) - begin},
          [&](std::uint32_t tag, region piece, std::uint64_t count) { end(send(child, tag, piece, count, {when})); });
  }

  /// Calls `visit` for the pieces that are sent along the edge between `child` and its parent. `all` is the location of
  /// the blocks of the child's subtree.
  template <class Visit>
  void for_each_piece(rank child, region all, const Visit& visit) {
    const portions pieces = blocks_.pieces_of_subtree(child);
    for (std::uint64_t i = 0; i < pieces.number(); ++i)
      visit(tag_of_piece(i), region{all.buffer(), all.offset() + pieces.begin(i)}, pieces.length(i));
  }

  const bool is_flat_;
  const subtree_blocks blocks_;
};

/// Each rank except the root sends (gather) or receives (scatter) one message for each piece of its subtree. The number
/// of hops of a non-empty block is the number of edges on its path.
template <bool is_flat>
cost cost_of_tree(rank size, const shape& data) {
  const subtree_blocks blocks(size, data, is_flat);
  cost all;
  std::uint64_t elements = 0;
  for (rank r = 0; r < size; ++r) {
    if (r == data.root) continue;
    all.messages += blocks.pieces_of_subtree(r).number();
    elements += blocks.count_of_subtree(r);
    if (block_count(data, r) > 0) all.hops = std::max(all.hops, static_cast<std::uint64_t>(blocks.tree().depth_of(r)));
  }
  all.bytes = bytes_of(elements, data);
  return all;
}

template <bool is_flat, fragment (block_tree::*write)()>
fragment add_tree(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  return (block_tree(to, data, input, output, entry, is_flat).*write)();
}

template <fragment (block_tree::*write)()>
constexpr algorithm flat_of(const collective& of, std::string_view summary) {
  return {&of,
          "flat",
          add_tree<true, write>,
          {.moves_lists = true, .summary = summary},
          cost_of_tree<true>,
          {.segment = true}};
}

template <fragment (block_tree::*write)()>
constexpr algorithm binomial_of(const collective& of) {
  return {&of,
          "binomial",
          add_tree<false, write>,
          {.summary = "any P and root; a k-nomial tree (radix 2), log2 P hops; for short blocks"},
          cost_of_tree<false>,
          {.segment = true, .radix = true}};
}

constexpr std::string_view k_to_root = "any P and root; every rank sends to the root, one hop";
constexpr std::string_view k_from_root = "any P and root; the root sends to every rank, one hop";

}  // namespace

constinit const algorithm k_gather_flat = flat_of<&block_tree::gather>(k_gather, k_to_root);
constinit const algorithm k_gather_binomial = binomial_of<&block_tree::gather>(k_gather);
constinit const algorithm k_gatherv_flat = flat_of<&block_tree::gather>(k_gatherv, k_to_root);
constinit const algorithm k_gatherv_binomial = binomial_of<&block_tree::gather>(k_gatherv);
constinit const algorithm k_scatter_flat = flat_of<&block_tree::scatter>(k_scatter, k_from_root);
constinit const algorithm k_scatter_binomial = binomial_of<&block_tree::scatter>(k_scatter);
constinit const algorithm k_scatterv_flat = flat_of<&block_tree::scatter>(k_scatterv, k_from_root);
constinit const algorithm k_scatterv_binomial = binomial_of<&block_tree::scatter>(k_scatterv);

}  // namespace lsched
