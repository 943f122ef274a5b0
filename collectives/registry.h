// The table of what there is: collective and algorithm by name, generator, constraints, declared cost.
//
// "auto" goes by the declared costs: the fewest hops where every rank has a core of its own, and the fewest messages
// where ranks share cores, because there each message means that somebody has to be woken.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "collectives/generator.h"

namespace lsched {

/// What one round costs the whole world, in exact integers; products that pass 2^64-1 stay there.
struct cost {
  std::uint64_t messages = 0;        ///< payload messages
  std::uint64_t bytes = 0;           ///< payload bytes, if no contribution is null
  std::uint64_t signals = 0;         ///< signals, if every rank's own call counts
  std::uint64_t signals_of_one = 0;  ///< signals, if exactly one rank's call counts
  /// Longest chain of messages and signals, one hop each, to the last exit. Ordinary schedules and policy
  /// full: all ranks enter at once. Other policies: one rank calls, the worst one.
  std::uint64_t hops = 0;
  friend bool operator==(const cost&, const cost&) = default;
};

struct algorithm {
  std::string_view collective;
  std::string_view name;
  generator generate;
  const constraints* needs;
  cost (*cost_of)(rank size, const shape& data, activation_policy policy);
};

/// All of them, collectives side by side.
std::span<const algorithm> algorithms();

/// Exactly this one, or nullptr.
const algorithm* find(std::string_view collective, std::string_view name);

/// The algorithm of this name, or for "auto" the cheapest that can serve the request; `is_crowded`: ranks share cores,
/// equal on all ranks. Failures: `argument` for names that do not exist (the text lists those that do) and for
/// meaningless requests, `constraint` for an algorithm, or a collective, that cannot do this request.
result<const algorithm*> choose(std::string_view collective, std::string_view name, world place,
                                const shape& data, const activation& starts = {}, bool is_crowded = false);

/// choose, then generate.
result<schedule_ptr> generate(std::string_view collective, std::string_view name, world place,
                              const shape& data, const activation& starts = {});

}  // namespace lsched
