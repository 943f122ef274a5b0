// Broadcast down a tree, and reduce up a tree, segment by segment.
//
//   flat       the root sends to, or receives from, all ranks                                             1 hop
//   binomial   a k-nomial tree whose radix is `radix`, or 2 if that is 0; vectors are cut only if shape::segment is set
//
// In each algorithm, ranks together send P-1 vectors.
//
// Broadcast (Johnsson and Ho, 1989): a rank forwards a segment as soon as the segment has arrived, to the child with
// the deepest subtree first. The root sends a segment to all its children before it sends the next. Inner ranks receive
// into the output and send from the output.
//
// Reduce: values are combined in rank order, for any root. A rank begins with its nearest child. Every subtree is an
// interval of ranks, so a rank can combine the value of a child before or after its own value (geometry.h,
// spread_tree). So the kernel need not be commutative. The tree consists of two binomial trees of Thakur, Rabenseifner
// and Gropp (2005). One tree has the ranks below the root, and the other has the ranks above the root.
#include <algorithm>
#include <cstdlib>
#include <vector>

#include "collectives/patterns/rank_part.h"
#include "collectives/rooted/rooted.h"

namespace lsched {
namespace {

rank radix_of(rank size, const shape& data, bool is_flat) {
  return is_flat ? std::max(size, 2) : data.radix == 0 ? 2 : data.radix;
}

/// Returns the cost if every piece moves once along each edge of the tree.
cost cost_of_pieces(rank size, const shape& data, std::uint64_t pieces, int depth) {
  return {.messages = (wide(size) - 1) * pieces,
          .bytes = saturating_product(wide(size) - 1, bytes_of(data.count, data)),
          .hops = pieces == 0 ? 0 : static_cast<std::uint64_t>(depth)};
}

// --- broadcast -----------------------------------------------------------------------------------------------

std::uint64_t bcast_pieces(const shape& data, bool is_flat) {
  return is_flat ? pieces_of(data, data.count) : pieces_if_segmented(data, data.count);
}

/// Receives every piece from the parent and forwards it at once. The tree's ranks are numbered from the root (rank -
/// root, mod P).
template <bool is_flat>
fragment add_bcast(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  rank_part part(to, data, input, output, entry);
  const rank self = ring_before(part.self(), data.root, part.size());
  const knomial tree(part.size(), radix_of(part.size(), data, is_flat));
  const auto rank_of = [&](rank number) { return ring_after(data.root, number, part.size()); };
  std::vector<rank> children = tree.children_of(self);
  std::ranges::reverse(children);
  const portions pieces(data.count, bcast_pieces(data, is_flat));
  for (std::uint64_t i = 0; i < pieces.number(); ++i) {
    const region piece{self == 0 ? input : output, pieces.begin(i)};
    const op_id got =
        self == 0 ? k_no_op : part.recv(rank_of(tree.parent_of(self)), tag_of_piece(i), piece, pieces.length(i));
    for (const rank child : children)
      part.end(part.send(rank_of(child), tag_of_piece(i), piece, pieces.length(i), {got}));
    if (children.empty()) part.end(got);
  }
  return part.finish(true);
}

template <bool is_flat>
cost cost_of_bcast(rank size, const shape& data) {
  return cost_of_pieces(size, data, bcast_pieces(data, is_flat), knomial(size, radix_of(size, data, is_flat)).depth());
}

// --- reduce --------------------------------------------------------------------------------------------------

std::uint64_t reduce_pieces(rank size, const shape& data, bool is_flat) {
  constexpr std::uint64_t k_most_buffers = 4096;  // at the root: one for each piece of each rank
  return is_flat ? std::min(pieces_of(data, data.count), k_most_buffers / wide(size) + 1)
                 : pieces_if_segmented(data, data.count);
}

spread_tree reduce_tree(rank size, const shape& data, bool is_flat) {
  return {size, data.root, radix_of(size, data, is_flat)};
}

/// Combines the values of children, the nearest first. The fragment satisfies the conditions of
/// builder::declare_holding: the reader of a payload waits only for payloads of nearer children, which do not wait for
/// each other.
template <bool is_flat>
fragment add_reduce(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  rank_part part(to, data, input, output, entry);
  const rank self = part.self();
  const bool is_root = self == data.root;
  const spread_tree tree = reduce_tree(part.size(), data, is_flat);
  std::vector<rank> children = tree.children_of(self);
  std::ranges::stable_sort(children, {}, [self](rank r) { return std::abs(r - self); });
  const portions pieces(data.count, reduce_pieces(part.size(), data, is_flat));
  const bool is_leaf = children.empty() || pieces.number() == 0;
  const buffer_id sum = is_root ? output : is_leaf ? k_no_buffer : part.scratch(data.count);
  for (std::uint64_t i = 0; i < pieces.number(); ++i) {
    const std::uint64_t count = pieces.length(i);
    region value{input, pieces.begin(i)};
    op_id last = k_no_op;
    for (const rank child : children) {
      const region landing{part.scratch(count), 0};
      const op_id got = part.recv(child, tag_of_piece(i), landing, count);
      const region target{sum, pieces.begin(i)};
      last = part.reduce(child < self ? landing : value, child < self ? value : landing, target, count, {got, last});
      value = target;
    }
    part.end(is_root ? last : part.send(tree.parent_of(self), tag_of_piece(i), value, count, {last}));
  }
  if (part.size() == 1) part.end_with_copy(data.count);
  return part.finish(true);
}

template <bool is_flat>
cost cost_of_reduce(rank size, const shape& data) {
  return cost_of_pieces(size, data, reduce_pieces(size, data, is_flat), reduce_tree(size, data, is_flat).depth());
}

}  // namespace

constinit const algorithm k_bcast_flat{.of = &k_bcast,
                                       .name = "flat",
                                       .add = add_bcast<true>,
                                       .needs = {.summary = "any P; the root sends to every rank, one hop"},
                                       .cost_of = cost_of_bcast<true>,
                                       .looks_at = {.segment = true}};

constinit const algorithm k_bcast_binomial{
    .of = &k_bcast,
    .name = "binomial",
    .add = add_bcast<false>,
    .needs = {.summary = "any P; a k-nomial tree (radix 2), log2 P hops with the entire vector"},
    .cost_of = cost_of_bcast<false>,
    .looks_at = {.segment = true, .radix = true}};

constinit const algorithm k_reduce_flat{
    .of = &k_reduce,
    .name = "flat",
    .add = add_reduce<true>,
    .needs = {.summary = "any P and root; every rank sends to the root, one hop; rank order"},
    .cost_of = cost_of_reduce<true>,
    .looks_at = {.segment = true}};

constinit const algorithm k_reduce_binomial{
    .of = &k_reduce,
    .name = "binomial",
    .add = add_reduce<false>,
    .needs = {.summary = "any P and root; a k-nomial tree (radix 2), log2 P hops; rank order"},
    .cost_of = cost_of_reduce<false>,
    .looks_at = {.segment = true, .radix = true}};

}  // namespace lsched
