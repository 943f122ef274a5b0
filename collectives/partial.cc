#include "collectives/partial.h"

#include <algorithm>

#include "collectives/activation/activation.h"
#include "collectives/activation/with_activation.h"
#include "collectives/adasum/adasum_doubling.h"
#include "collectives/adasum/adasum_halving.h"
#include "collectives/allgather/allgather_direct.h"
#include "collectives/allreduce/allreduce.h"
#include "collectives/allreduce/allreduce_flat.h"
#include "collectives/allreduce/allreduce_rabenseifner.h"
#include "collectives/allreduce/allreduce_tree.h"
#include "collectives/allreduce/allreduce_two_level.h"
#include "collectives/allreduce/direct.h"
#include "collectives/allreduce/multiplying.h"
#include "collectives/allreduce/reduce_scatter_halving.h"
#include "collectives/allreduce/ring.h"

namespace lsched {
namespace {

/// The parts that are computed each by itself.
std::vector<shape> bodies_of(const shape& data) {
  shape whole = data;
  whole.buckets.clear();
  std::vector<shape> bodies;
  for (const std::uint64_t count : data.buckets) {
    if (count == 0) continue;
    bodies.push_back(whole);
    bodies.back().count = count;
  }
  if (bodies.empty()) bodies.push_back(whole);
  return bodies;
}

/// Of a vector without elements all parts are one, and who contributes would be counted more than once, or not at all.
/// What is left to be said of it, who contributes, an allreduce says.
template <const algorithm& of>
const algorithm& body_of(const shape& data) {
  return data.count == 0 ? k_allreduce_recursive_doubling : of;
}

/// Signals are exact. Hops are at most what a call takes to the rank it reaches last and what the body takes from
/// there; less where no rank that is far from the caller begins the body's longest chain.
template <const algorithm& of>
cost cost_of_partial(rank size, const shape& data, const activation& starts) {
  cost price;
  for (const shape& body : bodies_of(data)) {
    const cost one = body_of<of>(body).cost_of(size, body, {});
    price.messages = saturating_sum(price.messages, one.messages);
    price.bytes = saturating_sum(price.bytes, one.bytes);
    price.signals = saturating_sum(price.signals, one.signals);
    price.signals_of_one = saturating_sum(price.signals_of_one, one.signals_of_one);
    price.hops = std::max(price.hops, one.hops);
    price.hops_are_bound = price.hops_are_bound || one.hops_are_bound;
  }
  if (!starts.is_woken()) return price;
  const auto [most, least, hops] = price_of(starts, size);
  price.signals = saturating_sum(price.signals, most);
  price.signals_of_one = saturating_sum(price.signals_of_one, least);
  price.hops += hops;
  price.hops_are_bound = true;
  return price;
}

constraints needs_of_partial(const algorithm& of) {
  constraints needs = of.needs;
  needs.in_place = false;
  needs.summary = "starts by its policy, absent ranks contribute null; then as it is without";
  return needs;
}

template <const algorithm& of, const collective& partial>
result<schedule_ptr> generate_partial(world place, const shape& data, const activation& starts) {
  if (auto why = objection(partial, needs_of_partial(of), place, data, starts)) return *why;
  std::vector<schedule_ptr> bodies;
  for (shape& body : bodies_of(data)) {
    const algorithm& by = body_of<of>(body);
    if (!by.of->reduces) body.what = kernel::none;
    if (by.of->reduces && partial.adapts) body.what = kernel::sum;  // of nothing
    if (!by.of->adapts) body.tensors.clear();
    auto made = by.generate(place, body, {});
    if (!made) return made;
    bodies.push_back(*std::move(made));
  }
  return with_activation(bodies, starts, data.what);
}

template <const algorithm& of, const collective& partial>
algorithm partial_of() {
  return {.of = &partial,
          .name = of.name,
          .generate = generate_partial<of, partial>,
          .needs = needs_of_partial(of),
          .cost_of = cost_of_partial<of>,
          .looks_at = {.segment = of.looks_at.segment,
                       .radix = of.looks_at.radix,
                       .nodes = of.looks_at.nodes,
                       .buckets = partial.has_buckets,
                       .tensors = of.looks_at.tensors},
          .expression_of = of.expression_of};
}

template <const algorithm& of>
algorithm adasum() {
  return partial_of<of, k_partial_adasum>();
}

template <const algorithm& of>
algorithm allgather() {
  return partial_of<of, k_partial_allgather>();
}

template <const algorithm& of>
algorithm allreduce() {
  return partial_of<of, k_partial_allreduce>();
}

template <const algorithm& of>
algorithm reduce_scatter() {
  return partial_of<of, k_partial_reduce_scatter_block>();
}

}  // namespace

result<schedule_ptr> partial_allreduce(world place, const shape& data, const activation& starts) {
  return generate_partial<k_allreduce_recursive_doubling, k_partial_allreduce>(place, data, starts);
}

result<schedule_ptr> partial_allreduce_tree(world place, const shape& data, const activation& starts) {
  return generate_partial<k_allreduce_tree, k_partial_allreduce>(place, data, starts);
}

std::vector<algorithm> partial_collectives() {
  return {adasum<k_adasum_doubling>(),
          adasum<k_adasum_halving>(),
          allgather<k_allgather_direct>(),
          allreduce<k_allreduce_recursive_doubling>(),
          allreduce<k_allreduce_tree>(),
          allreduce<k_allreduce_flat>(),
          allreduce<k_allreduce_multiplying>(),
          allreduce<k_allreduce_direct>(),
          allreduce<k_allreduce_rabenseifner>(),
          allreduce<k_allreduce_ring>(),
          allreduce<k_allreduce_two_level>(),
          reduce_scatter<k_reduce_scatter_block_direct>(),
          reduce_scatter<k_reduce_scatter_block_halving>(),
          reduce_scatter<k_reduce_scatter_block_ring>()};
}

}  // namespace lsched
