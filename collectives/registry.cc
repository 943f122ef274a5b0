#include "collectives/registry.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>

#include "collectives/adasum/adasum_doubling.h"
#include "collectives/adasum/adasum_halving.h"
#include "collectives/adasum/adasum_linear.h"
#include "collectives/adasum/adasum_two_level.h"
#include "collectives/adasum/node_adasum.h"
#include "collectives/adasum/node_mean.h"
#include "collectives/allgather/allgather_direct.h"
#include "collectives/allgather/allgather_dissemination.h"
#include "collectives/allgather/allgather_recursive_doubling.h"
#include "collectives/allgather/alltoall_bruck.h"
#include "collectives/allgather/exchange.h"
#include "collectives/allreduce/allreduce.h"
#include "collectives/allreduce/allreduce_flat.h"
#include "collectives/allreduce/allreduce_rabenseifner.h"
#include "collectives/allreduce/allreduce_tree.h"
#include "collectives/allreduce/allreduce_two_level.h"
#include "collectives/allreduce/circulant.h"
#include "collectives/allreduce/direct.h"
#include "collectives/allreduce/multiplying.h"
#include "collectives/allreduce/reduce_scatter_halving.h"
#include "collectives/allreduce/ring.h"
#include "collectives/rooted/barrier.h"
#include "collectives/rooted/barrier_tree.h"
#include "collectives/rooted/bcast_scatter_allgather.h"
#include "collectives/rooted/bcast_tree.h"
#include "collectives/rooted/gather_tree.h"
#include "collectives/rooted/reduce_direct.h"
#include "collectives/rooted/reduce_tree.h"
#include "collectives/rooted/scan.h"
#include "collectives/rooted/scatter_tree.h"

namespace lsched {
namespace {

/// A collective's algorithms stand together.
constexpr std::array k_dense{
    &k_adasum_doubling,
    &k_adasum_halving,
    &k_adasum_linear,
    &k_adasum_two_level,
    &k_allgather_direct,
    &k_allgather_dissemination,
    &k_allgather_recursive_doubling,
    &k_allgatherv_direct,
    &k_allgatherv_dissemination,
    &k_allgatherv_recursive_doubling,
    &k_allreduce_recursive_doubling,
    &k_allreduce_tree,
    &k_allreduce_flat,
    &k_allreduce_multiplying,
    &k_allreduce_direct,
    &k_allreduce_rabenseifner,
    &k_allreduce_ring,
    &k_allreduce_circulant,
    &k_allreduce_two_level,
    &k_alltoall_bruck,
    &k_alltoall_direct,
    &k_alltoallv_direct,
    &k_alltoallv_pairwise,
    &k_barrier_dissemination,
    &k_barrier_k_dissemination,
    &k_barrier_tree,
    &k_bcast_binomial,
    &k_bcast_flat,
    &k_bcast_scatter_allgather,
    &k_exscan_chain,
    &k_exscan_recursive_doubling,
    &k_gather_binomial,
    &k_gather_flat,
    &k_gatherv_binomial,
    &k_gatherv_flat,
    &k_neighbor_exchange_direct,
    &k_node_adasum_halving,
    &k_node_mean_direct,
    &k_reduce_binomial,
    &k_reduce_direct,
    &k_reduce_flat,
    &k_reduce_scatter_direct,
    &k_reduce_scatter_halving,
    &k_reduce_scatter_ring,
    &k_reduce_scatter_circulant,
    &k_reduce_scatter_block_direct,
    &k_reduce_scatter_block_halving,
    &k_reduce_scatter_block_ring,
    &k_reduce_scatter_block_circulant,
    &k_scan_chain,
    &k_scan_recursive_doubling,
    &k_scatter_binomial,
    &k_scatter_flat,
    &k_scatterv_binomial,
    &k_scatterv_flat,
};

/// Partial collectives stand before reduce.
std::vector<algorithm> make_table() {
  std::vector<algorithm> all, partial;
  for (const algorithm* const it : k_dense) {
    all.push_back(*it);
    if (auto made = partial_of(*it)) partial.push_back(*made);
  }
  all.insert(std::ranges::find(all, &k_reduce, &algorithm::of), partial.begin(), partial.end());
  return all;
}

const std::vector<algorithm>& table() {
  static const std::vector<algorithm> all = make_table();
  return all;
}

}  // namespace

namespace {

/// All holders of a tensor hold the same.
void set_expressions(const algorithm& what, rank size, const shape& data, postcondition& promise) {
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> trees;
  for (promised_range& it : promise.ranges) {
    const auto [place, is_new] = trees.try_emplace({it.begin, it.end});
    if (is_new) place->second = what.expression_of(size, data, {it.begin, it.end - it.begin});
    it.tree = place->second;
    it.has_means = what.combines_means;
  }
}

}  // namespace

promised_data data_of(const collective& of, rank size, const shape& data) {
  promised_data all{.type = data.type};
  for (rank r = 0; r < size; ++r) all.of.push_back(of.extents_of({.self = r, .size = size}, data));
  if (std::ranges::count(all.of, all.of.front()) == static_cast<std::ptrdiff_t>(all.of.size())) all.of.resize(1);
  return all;
}

aliasing aliasing_of(const collective& of, rank size, const shape& data) {
  if (!data.in_place || of.aliasing_of == nullptr) return aliasing(data.in_place);
  std::vector<std::int64_t> offsets;
  for (rank r = 0; r < size; ++r) offsets.push_back(of.aliasing_of({.self = r, .size = size}, data));
  return aliasing(std::move(offsets));
}

postcondition promise_of(const algorithm& what, rank size, const shape& data, const activation& starts) {
  postcondition promise = what.of->contents_of(size, data);
  promise.data = data_of(*what.of, size, data);
  for (promised_range& it : promise.ranges) it.is_in_rank_order &= !what.needs.needs_commutative;
  if (what.expression_of != nullptr) set_expressions(what, size, data, promise);
  promise.price = price_of(what, size, data, starts);
  return promise;
}

std::span<const algorithm> algorithms() { return table(); }

const algorithm* find(std::string_view collective, std::string_view name) {
  for (const algorithm& it : table())
    if (it.of->name == collective && it.name == name) return &it;
  return nullptr;
}

result<std::vector<schedule_ptr>> generate_world(const algorithm& what, rank size, const shape& data,
                                                 const activation& starts) {
  std::vector<schedule_ptr> world;
  for (rank self = 0; self < size; ++self) {
    auto program = what.generate({self, size}, data, starts);
    if (!program) return program.error();
    world.push_back(std::move(*program));
  }
  return world;
}

}  // namespace lsched
