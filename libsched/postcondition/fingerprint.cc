#include "libsched/postcondition/fingerprint.h"

#include <sys/random.h>

#include <cerrno>
#include <numeric>
#include <system_error>

#include "libsched/postcondition/postcondition.h"
#include "libsched/schedule/draw.h"

namespace lsched {
namespace {

/// A generator of the multiplicative group modulo 2^61-1: its powers are all numbers from 1 to 2^61-2. (The order of
/// the group is 2^61-2 = 2 * 3^2 * 5^2 * 7 * 11 * 13 * 31 * 41 * 61 * 151 * 331 * 1321.)
constexpr std::uint64_t k_generator = 37;

/// Returns a random generator: a power of k_generator whose exponent has no common divisor with 2^61-2.
std::uint64_t generator_by(std::uint64_t bits) {
  std::uint64_t exponent = bits % (k_prime - 1);
  // With exponent + 1 in place of mix(exponent), some generators would be more likely than others.
  while (std::gcd(exponent, k_prime - 1) != 1) exponent = mix(exponent) % (k_prime - 1);
  return modular_power(k_generator, exponent);
}

/// Returns the inverse of x, computed as x^(p-2) (Fermat). x must not be 0.
constexpr std::uint64_t modular_inverse(std::uint64_t x) { return modular_power(x, k_prime - 2); }

/// Returns the sum r^begin + … + r^(end-1), computed as (r^end - r^begin) / (r - 1). r is by.element_steps[which].
std::uint64_t powers(const random_weights& by, std::size_t which, std::uint64_t begin, std::uint64_t end) {
  const std::uint64_t r = by.element_steps[which];
  const std::uint64_t upper = modular_power(r, end), lower = modular_power(r, begin);
  return modular_product(modular_sum(upper, k_prime - lower), by.element_inverses[which]);
}

}  // namespace

random_weights draw_weights() {
  std::array<std::uint64_t, 9> bits;
  if (getrandom(bits.data(), sizeof bits, 0) != static_cast<ssize_t>(sizeof bits))
    throw std::system_error(errno, std::generic_category(), "getrandom");
  const std::array<std::uint64_t, 2> steps{generator_by(bits[7]), generator_by(bits[8])};
  return {.leaf_keys = {{{bits[0], bits[1]}, {bits[2], bits[3]}}},
          .tree_key = bits[4],
          .shift_steps = {generator_by(bits[5]), generator_by(bits[6])},
          .element_steps = steps,
          .element_inverses = {modular_inverse(steps[0] - 1), modular_inverse(steps[1] - 1)}};
}

const random_weights& the_weights() {
  static const random_weights drawn = draw_weights();
  return drawn;
}

std::array<std::uint64_t, 2> weight_of_leaf(const random_weights& by, std::uint64_t number) {
  const auto weight = [&](const std::array<std::uint64_t, 2>& keys) {
    return mix(mix(number ^ keys[0]) + keys[1]) % k_prime;
  };
  return {weight(by.leaf_keys[0]), weight(by.leaf_keys[1])};
}

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
