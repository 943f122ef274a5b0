#include "collectives/partial.h"

#include <algorithm>

#include "collectives/allreduce.h"
#include "collectives/allreduce_tree.h"
#include "libsched/geometry.h"

namespace lsched {
namespace {

// Hops with a single caller, the worst one: the call crosses L dimensions to wake the farthest rank and the
// result L dimensions to come back. A sleeping extra adds two where the call arrives (proxy to extra, and its
// contribution back) and one where a result leaves; a calling extra adds one. With opposite proxies all four
// lie on one chain, otherwise two do.
cost cost_of_partial_allreduce(rank size, const shape& data, activation_policy policy) {
  cost total = k_allreduce_recursive_doubling.cost_of(size, data, policy);
  if (policy == activation_policy::full) return total;
  const fold folded(size);
  const auto levels = static_cast<std::uint64_t>(folded.levels());
  const std::uint64_t ends = folded.rem() == 0 ? 0 : 2 * wide(folded.rem()) > wide(folded.core()) ? 4 : 2;
  total.signals = wide(folded.core()) * levels + 2 * wide(folded.rem());
  total.signals_of_one = wide(size) - 1;
  total.hops = 2 * levels + ends;
  return total;
}

// Hops with a single caller, the worst one: the call's longest way to some rank, from there to the root, and from the
// root to the deepest rank. The call's longest way to a rank crosses all dimensions; it is longer by one where it
// ends, at an extra, and by one where it begins, if the rank opposite in the cube has an extra to begin at.
cost cost_of_partial_tree(rank size, const shape& data, activation_policy policy) {
  cost total = k_allreduce_tree.cost_of(size, data, policy);
  if (policy == activation_policy::full) return total;
  const fold folded(size);
  const knomial tree(size, k_tree_radix);
  std::uint64_t longest = 0;
  for (rank r = 0; r < size; ++r) {
    const rank woken_by = folded.is_extra(r) ? folded.proxy_of(r) : r;
    const rank opposite = folded.real_of(folded.core() - 1 - folded.virtual_of(woken_by));
    const bool begins_at_extra = folded.is_proxy(opposite) && folded.extra_of(opposite) != r;
    const std::uint64_t way = static_cast<std::uint64_t>(folded.levels()) + (folded.is_extra(r) ? 1 : 0) +
                              (begins_at_extra ? 1 : 0) + static_cast<std::uint64_t>(tree.depth_of(r));
    longest = std::max(longest, way);
  }
  total.signals = wide(folded.core()) * static_cast<std::uint64_t>(folded.levels()) + 2 * wide(folded.rem());
  total.signals_of_one = wide(size) - 1;
  total.hops = longest + static_cast<std::uint64_t>(tree.depth());
  return total;
}

constexpr constraints k_needs{
    .in_place = false,
    .summary = "any P and count; starts by its policy, absent ranks contribute null; then as allreduce"};

}  // namespace

constinit const algorithm k_partial_allreduce_recursive_doubling{.of = &k_partial_allreduce,
                                                                 .name = "recursive_doubling",
                                                                 .generate = partial_allreduce,
                                                                 .needs = k_needs,
                                                                 .cost_of = cost_of_partial_allreduce};

constinit const algorithm k_partial_allreduce_tree{.of = &k_partial_allreduce,
                                                   .name = "tree",
                                                   .generate = partial_allreduce_tree,
                                                   .needs = k_needs,
                                                   .cost_of = cost_of_partial_tree};

result<schedule_ptr> partial_allreduce(world place, const shape& data, const activation& starts) {
  return make_collective(k_partial_allreduce_recursive_doubling, place, data, starts, add_allreduce);
}

result<schedule_ptr> partial_allreduce_tree(world place, const shape& data, const activation& starts) {
  return make_collective(k_partial_allreduce_tree, place, data, starts, add_allreduce_tree);
}

}  // namespace lsched
