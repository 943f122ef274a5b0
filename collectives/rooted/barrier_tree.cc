#include "collectives/rooted/barrier_tree.h"

#include <vector>

#include "collectives/patterns/rank_part.h"
#include "libsched/schedule/geometry.h"

namespace lsched {
namespace {

knomial tree_of(rank size, const shape& data) { return {size, data.radix == 0 ? k_tree_radix : data.radix}; }

cost cost_of_tree(rank size, const shape& data, const activation&) {
  const std::uint64_t signals = 2 * (wide(size) - 1);
  return {.signals = signals,
          .signals_of_one = signals,
          .hops = 2 * static_cast<std::uint64_t>(tree_of(size, data).depth())};
}

}  // namespace

// A receive has no deps: its register is armed when the round begins.
fragment add_barrier_tree(builder& to, const shape& data, buffer_id, buffer_id, op_id entry) {
  rank_part part(to, data, entry);
  const knomial tree = tree_of(part.size(), data);
  const std::vector<rank> children = tree.children_of(part.self());
  op_id all = part.nop();
  for (const rank child : children) part.order(part.signal_recv(child, k_barrier_tag), all);
  if (part.self() != 0) {
    const rank parent = tree.parent_of(part.self());
    const op_id told = part.signal_send(parent, k_barrier_tag, {all});
    all = part.nop({told, part.signal_recv(parent, k_barrier_tag)});
  }
  // The deepest subtree first.
  for (auto child = children.rbegin(); child != children.rend(); ++child)
    part.end(part.signal_send(*child, k_barrier_tag, {all}));
  if (children.empty()) part.end(all);
  return part.finish(true);
}

constinit const algorithm k_barrier_tree{
    .of = &k_barrier,
    .name = "tree",
    .add = add_barrier_tree,
    .needs = {.summary = "any P; 2(P-1) signals, the fewest, along a tree; for ranks that share cores"},
    .cost_of = cost_of_tree};

}  // namespace lsched
