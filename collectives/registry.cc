#include "collectives/registry.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "collectives/adasum/adasum.h"
#include "collectives/allgather/allgather.h"
#include "collectives/allreduce/allreduce.h"
#include "collectives/rooted/rooted.h"

namespace lsched {
namespace {

constexpr auto addresses_of(const auto&... one) { return std::array{&one...}; }

/// The algorithms of a collective must be adjacent.
constexpr auto k_dense = addresses_of(
    k_adasum_doubling, k_adasum_halving, k_adasum_two_level, k_allgather_direct, k_allgather_dissemination,
    k_allgather_recursive_doubling, k_allgatherv_direct, k_allgatherv_dissemination, k_allgatherv_recursive_doubling,
    k_allreduce_recursive_doubling, k_allreduce_tree, k_allreduce_flat, k_allreduce_multiplying, k_allreduce_direct,
    k_allreduce_rabenseifner, k_allreduce_ring, k_allreduce_circulant, k_allreduce_two_level, k_alltoall_bruck,
    k_alltoall_direct, k_alltoallv_direct, k_alltoallv_pairwise, k_barrier_dissemination, k_barrier_k_dissemination,
    k_barrier_tree, k_bcast_binomial, k_bcast_flat, k_bcast_scatter_allgather, k_exscan_chain,
    k_exscan_recursive_doubling, k_gather_binomial, k_gather_flat, k_gatherv_binomial, k_gatherv_flat,
    k_neighbor_exchange_direct, k_reduce_binomial, k_reduce_direct, k_reduce_flat, k_reduce_scatter_direct,
    k_reduce_scatter_halving, k_reduce_scatter_ring, k_reduce_scatter_circulant, k_reduce_scatter_block_direct,
    k_reduce_scatter_block_halving, k_reduce_scatter_block_ring, k_reduce_scatter_block_circulant, k_scan_chain,
    k_scan_recursive_doubling, k_scatter_binomial, k_scatter_flat, k_scatterv_binomial, k_scatterv_flat);

/// Inserts the partial algorithms before the algorithms of reduce.
std::vector<algorithm> make_table() {
  std::vector<algorithm> all, partial;
  for (const algorithm* const dense : k_dense) {
    all.push_back(*dense);
    if (auto made = partial_of(*dense)) partial.push_back(*made);
  }
  all.insert(std::ranges::find(all, &k_reduce, &algorithm::of), partial.begin(), partial.end());
  return all;
}

/// All versions of the table. Readers need no lock: a release store publishes a new table, which never changes
/// afterwards. Old tables are kept, because readers may still use them.
class versions {
 public:
  const std::vector<algorithm>& newest() const { return *newest_.load(std::memory_order_acquire); }

  void add(const algorithm& more) {
    const std::lock_guard lock(guard_);
    std::vector<algorithm> next = all_.back();
    const auto own = std::ranges::find(next.rbegin(), next.rend(), more.of, &algorithm::of);
    next.insert(own.base(), more);
    all_.push_back(std::move(next));
    newest_.store(&all_.back(), std::memory_order_release);
  }

 private:
  std::mutex guard_;
  std::list<std::vector<algorithm>> all_{make_table()};
  std::atomic<const std::vector<algorithm>*> newest_{&all_.back()};
};

versions& tables() {
  static versions all;
  return all;
}

/// Sets the expression of every range. The expression of a tensor is the same on all ranks, and is computed once.
void set_expressions(const algorithm& how, rank size, const shape& data, postcondition& promise) {
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> trees;
  for (promised_range& range : promise.ranges) {
    const auto [place, is_new] = trees.try_emplace({range.begin, range.end});
    if (is_new) place->second = how.expression_of(size, data, {range.begin, range.end - range.begin});
    range.tree = place->second;
    range.has_means = how.combines_means;
  }
}

}  // namespace

promised_data data_of(const collective& of, rank size, const shape& request) {
  const shape data = request.room == 0 ? request : in_units(request);
  promised_data all{.type = data.type};
  for (rank r = 0; r < size; ++r) all.of.push_back(of.extents_of({.self = r, .size = size}, data));
  if (std::ranges::count(all.of, all.of.front()) == static_cast<std::ptrdiff_t>(all.of.size())) all.of.resize(1);
  return all;
}

postcondition promise_of(const algorithm& how, rank size, const shape& data, const activation& starts) {
  postcondition promise = how.of->contents_of(size, data.room == 0 ? data : in_units(data));
  promise.data = data_of(*how.of, size, data);
  for (promised_range& range : promise.ranges) range.is_in_rank_order &= !how.needs.needs_commutative;
  if (how.expression_of != nullptr) set_expressions(how, size, data, promise);
  if (how.custom == nullptr || how.dense != nullptr) promise.round_cost = cost_of_round(how, size, data, starts);
  return promise;
}

std::span<const algorithm> algorithms() { return tables().newest(); }

void add_algorithm(const algorithm& more) { tables().add(more); }

const algorithm* find(std::string_view collective, std::string_view name) {
  const std::span<const algorithm> all = algorithms();
  const auto found =
      std::ranges::find_if(all, [&](const algorithm& how) { return how.of->name == collective && how.name == name; });
  return found == all.end() ? nullptr : &*found;
}

result<std::vector<schedule_ptr>> generate_world(const algorithm& how, rank size, const shape& data,
                                                 const activation& starts) {
  std::vector<schedule_ptr> world;
  for (rank self = 0; self < size; ++self) {
    auto program = how.generate({self, size}, data, starts);
    if (!program) return program.error();
    world.push_back(std::move(*program));
  }
  return world;
}

}  // namespace lsched
