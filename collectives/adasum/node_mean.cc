#include "collectives/adasum/node_mean.h"

#include "collectives/adasum/adasum_nodes.h"

namespace lsched {
namespace {

cost cost_of_node_mean(rank size, const shape& data, const activation&) {
  const std::uint64_t letters = wide(size) - nodes_of(data, size).size();
  return {.messages = letters,
          .bytes = saturating_product(letters, bytes_of(data.count, data)),
          .hops = letters == 0 ? 0u : 1u};
}

}  // namespace

constinit const algorithm k_node_mean_direct{
    .of = &k_node_mean,
    .name = "direct",
    .add = add_node_mean,
    .needs = {.summary = "all ranks of a node send to its owner, which adds in their order and divides"},
    .cost_of = cost_of_node_mean,
    .looks_at = {.nodes = true}};

fragment add_node_mean(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  adasum_nodes ops(to, data, input, output, entry, {.first = static_cast<std::size_t>(data.root)});
  ops.gather();
  ops.keep();
  return ops.finish();
}

}  // namespace lsched
