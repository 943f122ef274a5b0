// Fingerprints of multisets. A fingerprint consists of the number of elements and two sums. Each sum adds up the random
// weights of all elements, modulo 2^61-1. The two sums use different weights.
//
// The number of elements saturates, so surplus elements are always detected. If the number is right but the elements
// are wrong, the fingerprint misses this only if both sums of weights are equal by chance.
//
// Each process draws its random weights once, so no schedule can be designed to pass the check wrongly. Fingerprints of
// different worlds can be compared within a process. Data that leaves the process must not depend on weights.
#pragma once

#include <array>
#include <compare>
#include <cstdint>

#include "ops/saturating.h"

namespace lsched {

// --- arithmetic modulo the prime 2^61-1 ----------------------------------------------------------------------

inline constexpr std::uint64_t k_prime = (std::uint64_t{1} << 61) - 1;
__extension__ using twice_as_wide = unsigned __int128;

/// Returns x + y modulo k_prime. Operands and results of all modular functions are below k_prime.
constexpr std::uint64_t modular_sum(std::uint64_t x, std::uint64_t y) {
  const std::uint64_t z = x + y;
  return z >= k_prime ? z - k_prime : z;
}

constexpr std::uint64_t modular_product(std::uint64_t x, std::uint64_t y) {
  const twice_as_wide z = static_cast<twice_as_wide>(x) * y;
  return modular_sum(static_cast<std::uint64_t>(z & k_prime), static_cast<std::uint64_t>(z >> 61));
}

constexpr std::uint64_t modular_power(std::uint64_t x, std::uint64_t exponent) {
  std::uint64_t value = 1;
  for (; exponent != 0; exponent >>= 1, x = modular_product(x, x))
    if ((exponent & 1) != 0) value = modular_product(value, x);
  return value;
}

// --- fingerprints --------------------------------------------------------------------------------------------

struct fingerprint {
  std::array<std::uint64_t, 2> weights{};  ///< modulo 2^61-1
  std::uint64_t size = 0;                  ///< number of elements, saturated at 2^64-1
  friend constexpr auto operator<=>(const fingerprint&, const fingerprint&) = default;
};

/// Returns the fingerprint of the union of two multisets.
constexpr fingerprint joined(const fingerprint& x, const fingerprint& y) {
  return {{modular_sum(x.weights[0], y.weights[0]), modular_sum(x.weights[1], y.weights[1])},
          saturating_sum(x.size, y.size)};
}

/// The fingerprint of the products a[e] * b[e] that a dot product contains.
///
/// Several ranks compute parts of the dot products of an adaptive sum (kernel::dot_norms), and the parts are added. The
/// fingerprint shows whether the result contains all elements of two vectors, each exactly once. It consists of the
/// number of elements and two weights, one for each of two random numbers r. A weight is h * (sum of r^e over all
/// elements e) modulo 2^61-1, where h is a hash of the two vectors. If the number of elements is right but the elements
/// are wrong, the fingerprint misses this with a probability of at most (6n / 2^61)^2 for vectors of length n. (The
/// factor is 6 because r is a random generator of the multiplicative group, and more than a sixth of all numbers are
/// generators.)
using products = fingerprint;

/// Returns the fingerprint of the products of elements [begin, end) of two vectors. `lower` and `higher` are the hashes
/// of the vectors' expressions (postcondition.h).
products products_of(std::uint64_t lower, std::uint64_t higher, std::uint64_t begin, std::uint64_t end);

/// Returns the hash of an adaptive sum of the vectors `lower` and `higher`. Its dot products contain the products `by`.
std::uint64_t adaptive_tree(std::uint64_t lower, std::uint64_t higher, const products& by);

// --- random numbers ------------------------------------------------------------------------------------------

struct random_weights {
  std::array<std::array<std::uint64_t, 2>, 2> leaf_keys;  ///< for each of the two sums: keys for the weights of leaves
  std::uint64_t tree_key;                                 ///< key for the hashes of leaves (inputs of ranks)
  /// For each of the two sums: the factor by which the weight of an element changes if the element moves by one
  /// position. The factor generates the multiplicative group modulo 2^61-1, so different distances give different
  /// weights.
  std::array<std::uint64_t, 2> shift_steps;
  /// For each of the two sums: the ratio r of the weights of consecutive elements of a vector, and 1 / (r - 1).
  std::array<std::uint64_t, 2> element_steps, element_inverses;
};

/// Draws new weights. Throws std::system_error if the system cannot provide random numbers.
random_weights draw_weights();

/// Returns the weights of this process.
const random_weights& the_weights();

/// Returns the weights of a leaf, modulo 2^61-1. `number` is the hash of the leaf (leaf_tree in postcondition.h).
std::array<std::uint64_t, 2> weight_of_leaf(const random_weights& by, std::uint64_t number);

}  // namespace lsched
