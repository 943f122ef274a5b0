#include "collectives/algorithm.h"

#include <limits>

namespace lsched {

std::uint64_t saturating_product(std::uint64_t x, std::uint64_t y) {
  constexpr std::uint64_t k_most = std::numeric_limits<std::uint64_t>::max();
  return y != 0 && x > k_most / y ? k_most : x * y;
}

cost price_of(const algorithm& what, rank size, const shape& data, activation_policy policy) {
  if (data.unit == 1) return what.cost_of(size, data, policy);
  cost all = what.cost_of(size, in_units(data), policy);
  all.bytes = saturating_product(all.bytes, data.unit);
  return all;
}

std::uint64_t bytes_of(std::uint64_t count, const shape& data) { return saturating_product(count, size_of(data.type)); }

}  // namespace lsched
