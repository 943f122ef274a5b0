#include "collectives/adasum/adasum_halving.h"

#include <numeric>
#include <utility>

#include "collectives/adasum/adasum_exchange.h"

namespace lsched {
namespace {

cost cost_of_halving(rank size, const shape& data, const activation&) { return cost_of_exchange(size, 1, data); }

}  // namespace

constinit const algorithm k_adasum_halving{
    .of = &k_adasum,
    .name = "halving",
    .add = add_adasum_halving,
    .needs = {.summary = "long vectors, any P; halving then doubling, sums across dimensions in between"},
    .cost_of = cost_of_halving,
    .looks_at = {.tensors = true},
    .expression_of = hypercube_expression};

// A payload is held for sums that wait for earlier steps, and in place for their sends.
fragment add_adasum_halving(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  const auto [self, size] = to.place();
  ownership own{.node = self, .peers = std::vector<rank>(static_cast<std::size_t>(size)), .owners = {self}};
  std::iota(own.peers.begin(), own.peers.end(), 0);
  const tensor_map map(data, part_begins(data, size, 1));
  ordered_ops ops(to, data, entry);
  adasum_vector vector(ops, data, map, input, output);
  adasum_exchange(ops, map, vector, std::move(own)).write(vector.input());
  return ops.finish(true);
}

}  // namespace lsched
