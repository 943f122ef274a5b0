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
struct tunables {
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
  add_collective add;
  constraints needs;
  /// Of one round, exactly. Of a partial algorithm, as of its dense one: price_of (compose.h) adds the rest.
  cost (*cost_of)(rank size, const shape& data, const activation& starts);
  tunables looks_at{};
  /// Of collectives that adapt: the expression of one tensor (postcondition.h).
  std::uint64_t (*expression_of)(rank size, const shape& data, const tensor& what) = nullptr;
  bool combines_means = false;  ///< that expression's leaves may be means of several ranks
  std::uint64_t most_tensors = std::numeric_limits<std::uint64_t>::max();  ///< that are not empty, of several ranks
  std::string_view name_on_one_node{};  ///< in names of schedules, where all ranks share a node; empty: `name`
  const algorithm* dense = nullptr;     ///< of a partial algorithm: what the activation is in front of

  /// compose (collectives/compose.h).
  result<schedule_ptr> generate(world place, const shape& data, const activation& starts = {}) const;
};

/// As that of a generator with constraints, and by what is known of this algorithm.
std::optional<failure> validate(const algorithm& what, world place, const shape& data, const activation& starts = {});

/// The same request with every knob that the algorithm has turned this way and that, one at a time: itself first.
std::vector<shape> variants_of(const algorithm& what, rank size, const shape& data);

/// Bytes of that many elements.
std::uint64_t bytes_of(std::uint64_t count, const shape& data);

}  // namespace lsched
