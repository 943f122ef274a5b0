#include "collectives/adasum/adasum_two_level.h"

#include "collectives/adasum/adasum_nodes.h"

namespace lsched {
namespace {

cost cost_of_two_level(rank size, const shape& data, const activation&) {
  const std::vector<node> nodes = nodes_of(data, size);
  const std::uint64_t owners = ranks_of_smallest(nodes);
  const std::uint64_t inside = 2 * (wide(size) - nodes.size());
  cost all = cost_of_exchange(static_cast<rank>(nodes.size()), static_cast<rank>(owners), data);
  all.messages += owners * inside;
  all.bytes = saturating_sum(all.bytes, saturating_product(inside, bytes_of(data.count, data)));
  all.hops += inside != 0 ? 2 : 0;
  return all;
}

std::uint64_t nodes_expression(rank size, const shape& data, const tensor& what) {
  std::vector<std::uint64_t> means;
  for (const node& it : nodes_of(data, size)) means.push_back(mean_tree(it));
  return hypercube_tree(means, what);
}

}  // namespace

constinit const algorithm k_adasum_two_level{
    .of = &k_adasum,
    .name = "two_level",
    .add = add_adasum_two_level,
    .needs = {.needs_commutative = true,
              .by_name_only = true,
              .needs_everybody = true,
              .summary = "several nodes: the mean inside each, halving between them; one node: the mean"},
    .cost_of = cost_of_two_level,
    .looks_at = {.nodes = true, .tensors = true},
    .expression_of = nodes_expression,
    .combines_means = true,
    .name_on_one_node = "two_level, of one node: the mean"};

fragment add_adasum_two_level(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  const std::size_t owners = ranks_of_smallest(nodes_of(data, to.place().size));
  adasum_nodes ops(to, data, input, output, entry, {.count = owners});
  ops.gather();
  ops.exchange();
  ops.spread();
  return ops.finish();
}

}  // namespace lsched
