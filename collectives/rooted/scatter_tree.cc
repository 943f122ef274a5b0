#include "collectives/rooted/scatter_tree.h"

#include <algorithm>
#include <cstdlib>

#include "collectives/patterns/subtree_blocks.h"

namespace lsched {
namespace {

class scatter {
 public:
  scatter(builder& to, const shape& data, const subtree_blocks& blocks, bool is_far_first, buffer_id input,
          buffer_id output, op_id entry)
      : part_(to, data, entry), blocks_(blocks), is_far_first_(is_far_first), input_(input), output_(output) {}

  fragment write() {
    if (part_.self() == part_.data().root)
      write_root();
    else if (blocks_.pieces_of_subtree(part_.self()).number() > 0)
      write_other();
    return part_.finish(true);
  }

 private:
  std::uint64_t mine() const { return block_count(part_.data(), part_.self()); }

  void write_root() {
    pass_on(input_, 0, k_no_op);
    if (!part_.data().in_place) part_.end(part_.copy({input_, blocks_.begin_of(part_.self())}, {output_, 0}, mine()));
  }

  /// Without anything for those below, straight into the output.
  void write_other() {
    const std::uint64_t count = blocks_.count_of_subtree(part_.self());
    const bool is_alone = count == mine();
    const buffer_id held = is_alone ? output_ : part_.scratch(count);
    const op_id all = collect(held);
    if (is_alone) return part_.end(all);
    const std::uint64_t begin = blocks_.begin_of_subtree(part_.self());
    pass_on(held, begin, all);
    if (mine() > 0) part_.end(part_.copy({held, blocks_.begin_of(part_.self()) - begin}, {output_, 0}, mine(), {all}));
  }

  /// Answers an op after which the blocks of the subtree are in `held`.
  op_id collect(buffer_id held) {
    const op_id all = part_.nop();
    const rank parent = blocks_.tree().parent_of(part_.self());
    for_each_piece(part_.self(), {held, 0}, [&](std::uint32_t tag, region piece, std::uint64_t count) {
      part_.order(part_.recv(parent, tag, piece, count), all);
    });
    return all;
  }

  /// From `held`, in which the block that begins at `begin` comes first. The largest subtrees have to go on the
  /// longest.
  void pass_on(buffer_id held, std::uint64_t begin, op_id when) {
    std::vector<rank> children = blocks_.tree().children_of(part_.self());
    const auto distance = [&](rank r) { return std::abs(r - part_.self()); };
    std::ranges::stable_sort(children, {}, [&](rank r) { return is_far_first_ ? -distance(r) : distance(r); });
    for (const rank child : children)
      for_each_piece(child, {held, blocks_.begin_of_subtree(child) - begin},
                     [&](std::uint32_t tag, region piece, std::uint64_t count) {
                       part_.end(part_.send(child, tag, piece, count, {when}));
                     });
  }

  /// Of what a child gets from its parent.
  template <class Visit>
  void for_each_piece(rank child, region all, const Visit& visit) {
    const portions pieces = blocks_.pieces_of_subtree(child);
    for (std::uint64_t i = 0; i < pieces.number(); ++i)
      visit(static_cast<std::uint32_t>(i), region{all.buffer(), all.offset() + pieces.begin(i)}, pieces.length(i));
  }

  rank_part part_;
  const subtree_blocks& blocks_;
  const bool is_far_first_;
  const buffer_id input_;
  const buffer_id output_;
};

cost cost_of_flat(rank size, const shape& data, const activation&) { return subtree_blocks::flat(size, data).price(); }
cost cost_of_binomial(rank size, const shape& data, const activation&) {
  return subtree_blocks::binomial(size, data).price();
}

constexpr constraints k_flat{.summary = "any P and root; the root sends to everybody, one hop"};
constexpr constraints k_binomial{.summary = "any P and root; a k-nomial tree (radix 2), log2 P hops; for short blocks"};

}  // namespace

fragment add_scatter_flat(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  return scatter(to, data, subtree_blocks::flat(to.place().size, data), false, input, output, entry).write();
}

fragment add_scatter_binomial(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  return scatter(to, data, subtree_blocks::binomial(to.place().size, data), true, input, output, entry).write();
}

constinit const algorithm k_scatter_flat{&k_scatter, "flat", add_scatter_flat, k_flat, cost_of_flat};
constinit const algorithm k_scatter_binomial{&k_scatter, "binomial", add_scatter_binomial, k_binomial,
                                             cost_of_binomial};
constinit const algorithm k_scatterv_flat{&k_scatterv, "flat", add_scatter_flat, k_flat, cost_of_flat};
constinit const algorithm k_scatterv_binomial{&k_scatterv, "binomial", add_scatter_binomial, k_binomial,
                                              cost_of_binomial};

}  // namespace lsched
