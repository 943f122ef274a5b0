#include "collectives/registry.h"

#include <array>
#include <limits>
#include <string>

#include "collectives/allreduce.h"
#include "collectives/barrier.h"
#include "collectives/geometry.h"
#include "collectives/partial.h"

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

// --- the table ---------------------------------------------------------------------------------------------

constexpr constraints k_barrier_constraints{.moves_data = false,
                                            .summary = "any P; ceil(log2 P) steps of signals, no payload"};

result<schedule_ptr> generate_barrier(world place, const shape& data, const activation& starts) {
  if (const auto why = objection(k_barrier_constraints, place, data, starts)) return *why;
  return barrier_dissemination(place);
}

result<schedule_ptr> generate_allreduce(world place, const shape& data, const activation& starts) {
  if (const auto why = objection(k_allreduce_constraints, place, data, starts)) return *why;
  return allreduce_recursive_doubling(place, data);
}

constexpr std::array k_algorithms{
    algorithm{"allreduce", "recursive_doubling", generate_allreduce, &k_allreduce_constraints,
              cost_of_allreduce},
    algorithm{"barrier", "dissemination", generate_barrier, &k_barrier_constraints, cost_of_barrier},
    algorithm{"partial_allreduce", "recursive_doubling", partial_allreduce, &k_partial_allreduce_constraints,
              cost_of_partial_allreduce},
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

std::span<const algorithm> algorithms() { return k_algorithms; }

const algorithm* find(std::string_view collective, std::string_view name) {
  for (const algorithm& it : k_algorithms)
    if (it.collective == collective && it.name == name) return &it;
  return nullptr;
}

result<const algorithm*> choose(std::string_view collective, std::string_view name, world place,
                                const shape& data, const activation& starts) {
  std::optional<failure> last;
  for (const algorithm& it : k_algorithms) {
    if (it.collective != collective || (name != "auto" && name != it.name)) continue;
    last = objection(*it.needs, place, data, starts);
    if (!last) return &it;
  }
  return last ? *last : unknown(collective, name);
}

result<schedule_ptr> generate(std::string_view collective, std::string_view name, world place,
                              const shape& data, const activation& starts) {
  const auto chosen = choose(collective, name, place, data, starts);
  if (!chosen) return chosen.error();
  return (*chosen)->generate(place, data, starts);
}

}  // namespace lsched
