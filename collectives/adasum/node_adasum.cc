#include "collectives/adasum/node_adasum.h"

#include "collectives/adasum/adasum_nodes.h"

namespace lsched {
namespace {

cost cost_of_node_adasum(rank size, const shape& data, const activation&) {
  const std::uint64_t nodes = nodes_of(data, size).size();
  const std::uint64_t letters = wide(size) - nodes;
  cost all = cost_of_exchange(static_cast<rank>(nodes), 1, data);
  all.messages += letters;
  all.bytes = saturating_sum(all.bytes, saturating_product(letters, bytes_of(data.count, data)));
  all.hops += letters == 0 ? 0 : 1;
  return all;
}

std::uint64_t owners_expression(rank size, const shape& data, const tensor& what) {
  std::vector<std::uint64_t> leaves;
  for (const node& it : nodes_of(data, size)) leaves.push_back(leaf_tree(it[static_cast<std::size_t>(data.root)], 0));
  return hypercube_tree(leaves, what);
}

}  // namespace

constinit const algorithm k_node_adasum_halving{
    .of = &k_node_adasum,
    .name = "halving",
    .add = add_node_adasum,
    .needs = {.needs_commutative = true,
              .summary = "owners: halving then doubling between nodes; then each to its node"},
    .cost_of = cost_of_node_adasum,
    .looks_at = {.nodes = true, .tensors = true},
    .expression_of = owners_expression,
    .name_on_one_node = "halving, of one node: its owner's"};

fragment add_node_adasum(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  adasum_nodes ops(to, data, input, output, entry, {.first = static_cast<std::size_t>(data.root)});
  ops.exchange();
  ops.spread();
  return ops.finish();
}

}  // namespace lsched
