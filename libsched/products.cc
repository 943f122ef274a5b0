#include "libsched/products.h"

#include "libsched/draw.h"
#include "libsched/modular.h"
#include "libsched/postcondition.h"

namespace lsched {
namespace {

constexpr std::array<std::uint64_t, 2> k_bases{0x11d0b6f3a92c4e57, 0x0e63c18d5bf7a249};
constexpr std::array<std::uint64_t, 2> k_inverses{modular_inverse(k_bases[0] - 1), modular_inverse(k_bases[1] - 1)};

/// r^begin + … + r^(end-1) = (r^end - r^begin) / (r - 1).
std::uint64_t powers(std::size_t which, std::uint64_t begin, std::uint64_t end) {
  const std::uint64_t upper = modular_power(k_bases[which], end);
  const std::uint64_t lower = modular_power(k_bases[which], begin);
  return modular_product(modular_sum(upper, k_prime - lower), k_inverses[which]);
}

}  // namespace

products elements_of(std::uint64_t begin, std::uint64_t end) { return {powers(0, begin, end), powers(1, begin, end)}; }

products products_of(std::uint64_t lower, std::uint64_t higher, const products& elements) {
  const std::uint64_t pair = joined_tree(kernel::dot_norms, lower, higher);
  products all;
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = modular_product(mix(pair + i) % k_prime, elements[i]);
  return all;
}

products products_of(std::uint64_t lower, std::uint64_t higher, std::uint64_t begin, std::uint64_t end) {
  return products_of(lower, higher, elements_of(begin, end));
}

products joined(const products& x, const products& y) { return {modular_sum(x[0], y[0]), modular_sum(x[1], y[1])}; }

std::uint64_t adaptive_tree(std::uint64_t lower, std::uint64_t higher, const products& by) {
  return mix(joined_tree(kernel::adasum, lower, higher) ^ mix(by[0])) ^ mix(by[1]);
}

}  // namespace lsched
