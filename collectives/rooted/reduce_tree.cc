#include "collectives/rooted/reduce_tree.h"

#include <algorithm>
#include <cstdlib>

#include "collectives/patterns/rank_part.h"
#include "libsched/schedule/geometry.h"

namespace lsched {
namespace {

std::vector<rank> nearest_first(std::vector<rank> ranks, rank from) {
  std::ranges::stable_sort(ranks, {}, [from](rank r) { return std::abs(r - from); });
  return ranks;
}

/// Whatever comes is combined in that order, so that a payload waits for nothing but others that have been sent
/// already: receives may hold.
fragment add_reduce(builder& to, const shape& data, const spread_tree& tree, std::uint64_t pieces, buffer_id input,
                    buffer_id output, op_id entry) {
  rank_part part(to, data, entry);
  const rank self = part.self();
  const bool is_root = self == data.root;
  const std::vector<rank> children = nearest_first(tree.children_of(self), self);
  const buffer_id sum = is_root ? output : children.empty() || pieces == 0 ? k_no_buffer : part.scratch(data.count);
  const portions parts(data.count, pieces);
  for (std::uint64_t i = 0; i < pieces; ++i) {
    const auto tag = static_cast<std::uint32_t>(i);
    region value{input, parts.begin(i)};
    op_id last = k_no_op;
    for (const rank child : children) {
      const region landing{part.scratch(parts.length(i)), 0};
      const op_id got = part.recv(child, tag, landing, parts.length(i));
      const region target{sum, parts.begin(i)};
      last = part.reduce(child < self ? landing : value, child < self ? value : landing, target, parts.length(i),
                         {got, last});
      value = target;
    }
    part.end(is_root ? last : part.send(tree.parent_of(self), tag, value, parts.length(i), {last}));
  }
  if (part.size() == 1 && !data.in_place) part.end(part.copy({input, 0}, {output, 0}, data.count));
  return part.finish(true);
}

spread_tree flat_tree(rank size, const shape& data) { return {size, data.root, std::max(size, 2)}; }
spread_tree binomial_tree(rank size, const shape& data) { return {size, data.root, data.radix == 0 ? 2 : data.radix}; }

/// The root needs a buffer for each piece of each rank.
std::uint64_t pieces_in_flat(rank size, const shape& data) {
  constexpr std::uint64_t k_most_buffers = 4096;
  return std::min(pieces_of(data, data.count), k_most_buffers / wide(size) + 1);
}

std::uint64_t pieces_in_binomial(const shape& data) {
  return data.segment == 0 ? std::min<std::uint64_t>(data.count, 1) : pieces_of(data, data.count);
}

cost cost_of_reduce(rank size, const shape& data, const spread_tree& tree, std::uint64_t pieces) {
  return {.messages = (wide(size) - 1) * pieces,
          .bytes = saturating_product(wide(size) - 1, bytes_of(data.count, data)),
          .hops = pieces == 0 ? 0 : static_cast<std::uint64_t>(tree.depth())};
}

cost cost_of_flat(rank size, const shape& data, const activation&) {
  return cost_of_reduce(size, data, flat_tree(size, data), pieces_in_flat(size, data));
}

cost cost_of_binomial(rank size, const shape& data, const activation&) {
  return cost_of_reduce(size, data, binomial_tree(size, data), pieces_in_binomial(data));
}

}  // namespace

fragment add_reduce_flat(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  const rank size = to.place().size;
  return add_reduce(to, data, flat_tree(size, data), pieces_in_flat(size, data), input, output, entry);
}

fragment add_reduce_binomial(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  return add_reduce(to, data, binomial_tree(to.place().size, data), pieces_in_binomial(data), input, output, entry);
}

constinit const algorithm k_reduce_flat{
    .of = &k_reduce,
    .name = "flat",
    .add = add_reduce_flat,
    .needs = {.summary = "any P and root; everybody sends to the root, one hop; rank order"},
    .cost_of = cost_of_flat};

constinit const algorithm k_reduce_binomial{
    .of = &k_reduce,
    .name = "binomial",
    .add = add_reduce_binomial,
    .needs = {.summary = "any P and root; a k-nomial tree (radix 2), log2 P hops; rank order"},
    .cost_of = cost_of_binomial};

}  // namespace lsched
