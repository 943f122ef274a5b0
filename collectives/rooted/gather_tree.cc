#include "collectives/rooted/gather_tree.h"

#include "collectives/patterns/subtree_blocks.h"

namespace lsched {
namespace {

class gather {
 public:
  gather(builder& to, const shape& data, const subtree_blocks& blocks, buffer_id input, buffer_id output, op_id entry)
      : part_(to, data, entry), blocks_(blocks), input_(input), output_(output) {}

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
    for (const rank child : blocks_.tree().children_of(part_.self()))
      for_each_piece(child, {output_, blocks_.begin_of_subtree(child)},
                     [&](std::uint32_t tag, region piece, std::uint64_t count) {
                       part_.end(part_.recv(child, tag, piece, count));
                     });
    if (!part_.data().in_place) part_.end(part_.copy({input_, 0}, {output_, blocks_.begin_of(part_.self())}, mine()));
  }

  /// Without anything from below, straight from the input.
  void write_other() {
    const bool is_alone = blocks_.count_of_subtree(part_.self()) == mine();
    const region source =
        is_alone ? region{input_, 0} : region{part_.scratch(blocks_.count_of_subtree(part_.self())), 0};
    const op_id all = is_alone ? k_no_op : collect(source.buffer());
    const rank parent = blocks_.tree().parent_of(part_.self());
    for_each_piece(part_.self(), source, [&](std::uint32_t tag, region piece, std::uint64_t count) {
      part_.end(part_.send(parent, tag, piece, count, {all}));
    });
  }

  /// Answers an op after which the blocks of the subtree are in `held`.
  op_id collect(buffer_id held) {
    const std::uint64_t begin = blocks_.begin_of_subtree(part_.self());
    const op_id all = part_.nop();
    for (const rank child : blocks_.tree().children_of(part_.self()))
      for_each_piece(child, {held, blocks_.begin_of_subtree(child) - begin},
                     [&](std::uint32_t tag, region piece, std::uint64_t count) {
                       part_.order(part_.recv(child, tag, piece, count), all);
                     });
    if (mine() > 0) part_.order(part_.copy({input_, 0}, {held, blocks_.begin_of(part_.self()) - begin}, mine()), all);
    return all;
  }

  /// Of what a child sends its parent.
  template <class Visit>
  void for_each_piece(rank child, region all, const Visit& visit) {
    const portions pieces = blocks_.pieces_of_subtree(child);
    for (std::uint64_t i = 0; i < pieces.number(); ++i)
      visit(static_cast<std::uint32_t>(i), region{all.buffer(), all.offset() + pieces.begin(i)}, pieces.length(i));
  }

  rank_part part_;
  const subtree_blocks& blocks_;
  const buffer_id input_;
  const buffer_id output_;
};

cost cost_of_flat(rank size, const shape& data, const activation&) { return subtree_blocks::flat(size, data).price(); }
cost cost_of_binomial(rank size, const shape& data, const activation&) {
  return subtree_blocks::binomial(size, data).price();
}

constexpr constraints k_flat{.summary = "any P and root; everybody sends to the root, one hop"};
constexpr constraints k_binomial{.summary = "any P and root; a k-nomial tree (radix 2), log2 P hops; for short blocks"};

}  // namespace

fragment add_gather_flat(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  return gather(to, data, subtree_blocks::flat(to.place().size, data), input, output, entry).write();
}

fragment add_gather_binomial(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  return gather(to, data, subtree_blocks::binomial(to.place().size, data), input, output, entry).write();
}

constinit const algorithm k_gather_flat{&k_gather, "flat", add_gather_flat, k_flat, cost_of_flat};
constinit const algorithm k_gather_binomial{&k_gather, "binomial", add_gather_binomial, k_binomial, cost_of_binomial};
constinit const algorithm k_gatherv_flat{&k_gatherv, "flat", add_gather_flat, k_flat, cost_of_flat};
constinit const algorithm k_gatherv_binomial{&k_gatherv, "binomial", add_gather_binomial, k_binomial, cost_of_binomial};

}  // namespace lsched
