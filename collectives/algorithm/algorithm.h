// One way to do a collective: generator, constraints and cost, as an entry of the registry.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "collectives/algorithm/generator.h"
#include "ops/saturating.h"

namespace lsched {

/// Which fields of a shape, beyond what the collective asks for, an algorithm looks at.
struct knobs {
  bool segment = false;
  bool radix = false;
  bool nodes = false;
  bool is_visible = false;
  bool buckets = false;
  bool tensors = false;
};

struct algorithm {
  const collective* of;
  std::string_view name;
  generator generate;
  constraints needs;
  cost (*cost_of)(rank size, const shape& data, const activation& starts);  ///< of one round, exactly
  knobs looks_at{};
  /// Of collectives that adapt: the expression of one tensor (postcondition.h).
  std::uint64_t (*expression_of)(rank size, const shape& data, const tensor& what) = nullptr;
  bool combines_means = false;  ///< that expression's leaves may be means of several ranks
  std::uint64_t most_tensors = std::numeric_limits<std::uint64_t>::max();  ///< that are not empty, of several ranks
};

/// What a round costs, of a request in elements; cost_of itself counts units.
cost price_of(const algorithm& what, rank size, const shape& data, const activation& starts);

/// As that of a generator with constraints, and by what is known of this algorithm.
std::optional<failure> objection(const algorithm& what, world place, const shape& data, const activation& starts = {});

/// make_collective for an algorithm that writes ops with `body`.
inline result<schedule_ptr> make_collective(const algorithm& what, world place, const shape& data,
                                            const activation& starts, add_collective body) {
  if (auto why = objection(what, place, data, starts)) return std::move(*why);
  return make_collective(*what.of, what.needs, place, data, starts, what.name, body);
}

/// The generator of an algorithm that writes ops with `body`, for its entry in the registry.
template <const algorithm& what, add_collective body>
result<schedule_ptr> generated(world place, const shape& data, const activation& starts) {
  return make_collective(what, place, data, starts, body);
}

/// The same request with every knob that the algorithm has turned this way and that, one at a time: itself first.
std::vector<shape> variants_of(const algorithm& what, rank size, const shape& data);

/// Bytes of that many elements.
std::uint64_t bytes_of(std::uint64_t count, const shape& data);

}  // namespace lsched
