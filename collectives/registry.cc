#include "collectives/registry.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "collectives/allreduce.h"
#include "collectives/allreduce_tree.h"
#include "collectives/barrier.h"
#include "collectives/partial.h"
#include "libsched/geometry.h"

namespace lsched {
namespace {

// --- costs -------------------------------------------------------------------------------------------------

std::uint64_t times(std::uint64_t x, std::uint64_t y) {
  constexpr std::uint64_t k_most = std::numeric_limits<std::uint64_t>::max();
  return y != 0 && x > k_most / y ? k_most : x * y;
}

std::uint64_t wide(rank value) { return static_cast<std::uint64_t>(value); }

cost cost_of_barrier(rank size, const shape&, activation_policy) {
  const auto steps = static_cast<std::uint64_t>(ceil_log2(size));
  const std::uint64_t signals = wide(size) * steps;
  return {.signals = signals, .signals_of_one = signals, .hops = steps};
}

// Hops. A chain is longest when it starts at an extra and ends at one, L + 2. It crosses all L dimensions
// only if two proxies have opposite virtual indices, and these are all below rem: 2 * rem > core.
cost cost_of_allreduce(rank size, const shape& data, activation_policy) {
  const fold folded(size);
  const auto levels = static_cast<std::uint64_t>(folded.levels());
  const std::uint64_t messages = wide(folded.core()) * levels + 2 * wide(folded.rem());
  const std::uint64_t ends = folded.rem() == 0 ? 0 : 2 * wide(folded.rem()) > wide(folded.core()) ? 2 : 1;
  return {.messages = messages,
          .bytes = times(messages, times(data.count, size_of(data.type))),
          .hops = levels + ends};
}

// Hops with a single caller, the worst one: the call crosses L dimensions to wake the farthest rank and the
// result L dimensions to come back. A sleeping extra adds two where the call arrives (proxy to extra, and its
// contribution back) and one where a result leaves; a calling extra adds one. With opposite proxies all four
// lie on one chain, otherwise two do.
cost cost_of_partial_allreduce(rank size, const shape& data, activation_policy policy) {
  cost total = cost_of_allreduce(size, data, policy);
  if (policy == activation_policy::full) return total;
  const fold folded(size);
  const auto levels = static_cast<std::uint64_t>(folded.levels());
  const std::uint64_t ends = folded.rem() == 0 ? 0 : 2 * wide(folded.rem()) > wide(folded.core()) ? 4 : 2;
  total.signals = wide(folded.core()) * levels + 2 * wide(folded.rem());
  total.signals_of_one = wide(size) - 1;
  total.hops = 2 * levels + ends;
  return total;
}

cost cost_of_tree(rank size, const shape& data, activation_policy) {
  const std::uint64_t messages = 2 * (wide(size) - 1);
  return {.messages = messages,
          .bytes = times(messages, times(data.count, size_of(data.type))),
          .hops = 2 * static_cast<std::uint64_t>(knomial(size, k_tree_radix).depth())};
}

// Hops with a single caller, the worst one: the call's longest way to some rank, from there to the root, and from the
// root to the deepest rank. The call's longest way to a rank crosses all dimensions; it is longer by one where it
// ends, at an extra, and by one where it begins, if the rank opposite in the cube has an extra to begin at.
cost cost_of_partial_tree(rank size, const shape& data, activation_policy policy) {
  cost total = cost_of_tree(size, data, policy);
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

// --- contents ----------------------------------------------------------------------------------------------

postcondition contents_of_barrier(rank, const shape&) { return {.is_synchronising = true}; }

postcondition contents_of_allreduce(rank size, const shape& data) {
  return reduced_everywhere(size, data.count, data.what, true);
}

// --- the table ---------------------------------------------------------------------------------------------

constexpr constraints k_barrier_constraints{.moves_data = false,
                                            .summary = "any P; ceil(log2 P) steps of signals, no payload"};

result<schedule_ptr> generate_barrier(world place, const shape& data, const activation& starts) {
  if (const auto why = objection(k_barrier_constraints, place, data, starts)) return *why;
  return barrier_dissemination(place);
}

constexpr std::array k_algorithms{
    algorithm{"allreduce", "recursive_doubling", allreduce_recursive_doubling, &k_allreduce_constraints,
              cost_of_allreduce, contents_of_allreduce},
    algorithm{"allreduce", "tree", allreduce_tree, &k_allreduce_tree_constraints, cost_of_tree,
              contents_of_allreduce},
    algorithm{"barrier", "dissemination", generate_barrier, &k_barrier_constraints, cost_of_barrier,
              contents_of_barrier},
    algorithm{"partial_allreduce", "recursive_doubling", partial_allreduce, &k_partial_allreduce_constraints,
              cost_of_partial_allreduce, contents_of_allreduce},
    algorithm{"partial_allreduce", "tree", partial_allreduce_tree, &k_partial_allreduce_constraints,
              cost_of_partial_tree, contents_of_allreduce},
};

// --- names -------------------------------------------------------------------------------------------------

std::string quoted(std::string_view name) { return "\"" + std::string(name) + "\""; }

/// The table is short and keeps a collective's algorithms together.
std::string known_collectives() {
  std::string list;
  std::string_view last;
  for (const algorithm& it : k_algorithms) {
    if (it.collective == last) continue;
    list += (list.empty() ? "" : ", ") + quoted(it.collective);
    last = it.collective;
  }
  return list;
}

std::string known_algorithms(std::string_view collective) {
  std::string list;
  for (const algorithm& it : k_algorithms)
    if (it.collective == collective) list += quoted(it.name) + ", ";
  return list + "\"auto\"";
}

failure unknown(std::string_view collective, std::string_view name) {
  for (const algorithm& it : k_algorithms)
    if (it.collective == collective)
      return {.code = status::argument,
              .text = quoted(collective) + " has no algorithm " + quoted(name) + ": choose one of " +
                      known_algorithms(collective)};
  return {.code = status::argument,
          .text = "there is no collective " + quoted(collective) + ": choose one of " + known_collectives()};
}

}  // namespace

postcondition promise_of(const algorithm& what, rank size, const shape& data, activation_policy policy) {
  postcondition promise = what.contents_of(size, data);
  promise.price = what.cost_of(size, data, policy);
  return promise;
}

std::span<const algorithm> algorithms() { return k_algorithms; }

const algorithm* find(std::string_view collective, std::string_view name) {
  for (const algorithm& it : k_algorithms)
    if (it.collective == collective && it.name == name) return &it;
  return nullptr;
}

const algorithm* find_any(std::string_view collective) {
  for (const algorithm& it : k_algorithms)
    if (it.collective == collective) return &it;
  return nullptr;
}

result<const algorithm*> choose(std::string_view collective, std::string_view name, world place,
                                const shape& data, const activation& starts, bool is_crowded) {
  std::optional<failure> last;
  const algorithm* best = nullptr;
  std::pair<std::uint64_t, std::uint64_t> least;
  for (const algorithm& it : k_algorithms) {
    if (it.collective != collective || (name != "auto" && name != it.name)) continue;
    if (auto why = objection(*it.needs, place, data, starts)) {
      last = std::move(why);
      continue;
    }
    const cost all = it.cost_of(place.size, data, starts.policy);
    const std::uint64_t moves = all.messages + all.signals;
    const auto price = is_crowded ? std::pair(moves, all.hops) : std::pair(all.hops, moves);
    if (best != nullptr && price >= least) continue;
    best = &it;
    least = price;
  }
  if (best != nullptr) return best;
  return last ? *last : unknown(collective, name);
}

result<schedule_ptr> generate(std::string_view collective, std::string_view name, world place,
                              const shape& data, const activation& starts) {
  const auto chosen = choose(collective, name, place, data, starts);
  if (!chosen) return chosen.error();
  return (*chosen)->generate(place, data, starts);
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
