#include "collectives/rooted/bcast_tree.h"

#include <algorithm>
#include <vector>

#include "collectives/patterns/rank_part.h"
#include "libsched/schedule/geometry.h"

namespace lsched {
namespace {

/// Whom a rank hears from and whom it tells, in this order. Numbers count from the root on, round the ring.
struct relay {
  rank parent = k_no_rank;
  std::vector<rank> children{};
};

/// Receives every piece from the parent and passes it on at once.
fragment add_relay(builder& to, const shape& data, std::uint64_t pieces, const relay& by, buffer_id input,
                   buffer_id output, op_id entry) {
  rank_part part(to, data, entry);
  const bool is_root = part.self() == data.root;
  const buffer_id held = is_root ? input : output;
  const portions parts(data.count, pieces);
  for (std::uint64_t i = 0; i < parts.number(); ++i) {
    const region piece{held, parts.begin(i)};
    const auto tag = static_cast<std::uint32_t>(i);
    op_id got = k_no_op;
    if (!is_root) got = part.recv(ring_after(data.root, by.parent, part.size()), tag, piece, parts.length(i));
    for (const rank child : by.children)
      part.end(part.send(ring_after(data.root, child, part.size()), tag, piece, parts.length(i), {got}));
    if (by.children.empty()) part.end(got);
  }
  return part.finish(true);
}

rank number_of(world place, const shape& data) { return ring_before(place.self, data.root, place.size); }

// --- k-nomial trees, the flat one among them ------------------------------------------------------------------

relay relay_in(const knomial& tree, rank number) {
  relay by{.parent = number == 0 ? k_no_rank : tree.parent_of(number), .children = tree.children_of(number)};
  std::ranges::reverse(by.children);
  return by;
}

knomial flat_tree(rank size) { return {size, std::max(size, 2)}; }
knomial binomial_tree(rank size, const shape& data) { return {size, data.radix == 0 ? 2 : data.radix}; }

std::uint64_t pieces_in_binomial(const shape& data) {
  return data.segment == 0 ? std::min<std::uint64_t>(data.count, 1) : pieces_of(data, data.count);
}

// --- costs ---------------------------------------------------------------------------------------------------

cost cost_of_relay(rank size, const shape& data, std::uint64_t pieces, std::uint64_t depth) {
  const std::uint64_t others = wide(size) - 1;
  return {.messages = others * pieces,
          .bytes = saturating_product(others, bytes_of(data.count, data)),
          .hops = pieces == 0 ? 0 : depth};
}

cost cost_of_flat(rank size, const shape& data, const activation&) {
  return cost_of_relay(size, data, pieces_of(data, data.count), size > 1 ? 1 : 0);
}

cost cost_of_binomial(rank size, const shape& data, const activation&) {
  return cost_of_relay(size, data, pieces_in_binomial(data),
                       static_cast<std::uint64_t>(binomial_tree(size, data).depth()));
}

}  // namespace

fragment add_bcast_flat(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  const relay by = relay_in(flat_tree(to.place().size), number_of(to.place(), data));
  return add_relay(to, data, pieces_of(data, data.count), by, input, output, entry);
}

fragment add_bcast_binomial(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  const relay by = relay_in(binomial_tree(to.place().size, data), number_of(to.place(), data));
  return add_relay(to, data, pieces_in_binomial(data), by, input, output, entry);
}

constinit const algorithm k_bcast_flat{.of = &k_bcast,
                                       .name = "flat",
                                       .add = add_bcast_flat,
                                       .needs = {.summary = "any P; the root sends to everybody, one hop"},
                                       .cost_of = cost_of_flat};

constinit const algorithm k_bcast_binomial{
    .of = &k_bcast,
    .name = "binomial",
    .add = add_bcast_binomial,
    .needs = {.summary = "any P; a k-nomial tree (radix 2), log2 P hops with the entire vector"},
    .cost_of = cost_of_binomial};

}  // namespace lsched
