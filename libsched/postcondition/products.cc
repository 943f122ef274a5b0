#include "libsched/postcondition/products.h"

#include "libsched/postcondition/modular.h"
#include "libsched/postcondition/postcondition.h"
#include "libsched/postcondition/weights.h"
#include "libsched/schedule/draw.h"

namespace lsched {
namespace {

/// r^begin + … + r^(end-1) = (r^end - r^begin) / (r - 1).
std::uint64_t powers(const random_weights& by, std::size_t which, std::uint64_t begin, std::uint64_t end) {
  const std::uint64_t r = by.element_steps[which];
  const std::uint64_t upper = modular_power(r, end), lower = modular_power(r, begin);
  return modular_product(modular_sum(upper, k_prime - lower), by.element_inverses[which]);
}

}  // namespace

products products_of(std::uint64_t lower, std::uint64_t higher, std::uint64_t begin, std::uint64_t end) {
  const random_weights& by = the_weights();
  const std::uint64_t pair = joined_tree(kernel::dot_norms, lower, higher);
  products all{.size = end - begin};
  for (std::size_t i = 0; i < all.weights.size(); ++i)
    all.weights[i] = modular_product(mix(pair + i) % k_prime, powers(by, i, begin, end));
  return all;
}

std::uint64_t adaptive_tree(std::uint64_t lower, std::uint64_t higher, const products& by) {
  const std::uint64_t weights =
      mix(joined_tree(kernel::adasum, lower, higher) ^ mix(by.weights[0])) ^ mix(by.weights[1]);
  return joined_tree(kernel::adasum, weights, by.size);
}

}  // namespace lsched
