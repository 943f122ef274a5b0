// One way to do a collective: generator, constraints and cost, as an entry of the registry.
#pragma once

#include <cstdint>
#include <string_view>

#include "collectives/generator.h"

namespace lsched {

struct algorithm {
  const collective* of;
  std::string_view name;
  generator generate;
  constraints needs;
  cost (*cost_of)(rank size, const shape& data, activation_policy policy);  ///< of one round, exactly
};

/// What a round costs, of a request in elements; cost_of itself counts units.
cost price_of(const algorithm& what, rank size, const shape& data, activation_policy policy);

/// As above, of this algorithm.
inline std::optional<failure> objection(const algorithm& what, world place, const shape& data,
                                        const activation& starts = {}) {
  return objection(*what.of, what.needs, place, data, starts);
}

/// make_collective for an algorithm that writes ops with `body`.
inline result<schedule_ptr> make_collective(const algorithm& what, world place, const shape& data,
                                            const activation& starts, add_collective body) {
  return make_collective(*what.of, what.needs, place, data, starts, what.name, body);
}

// --- arithmetic of costs: a product that passes 2^64-1 stays there -------------------------------------------------

std::uint64_t saturating_product(std::uint64_t x, std::uint64_t y);

/// Bytes of that many elements.
std::uint64_t bytes_of(std::uint64_t count, const shape& data);

}  // namespace lsched
