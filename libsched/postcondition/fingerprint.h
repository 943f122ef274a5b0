// Fingerprints of multisets: the number of elements, and two sums of the elements' weights modulo 2^61-1.
//
// The number of elements saturates. So a multiset with too many elements is always detected. A multiset with the right
// number of wrong elements is overlooked only if both sums of weights agree by chance.
//
// Weights are random and drawn once by each process, so schedules cannot be written to fit them. Within a process the
// weights are constant, so that contents of one world can be compared with the postcondition of another. Data that
// leaves the process must not depend on weights.
#pragma once

#include <array>
#include <compare>
#include <cstdint>

#include "ops/saturating.h"

namespace lsched {

// --- arithmetic modulo the prime 2^61-1 ----------------------------------------------------------------------

inline constexpr std::uint64_t k_prime = (std::uint64_t{1} << 61) - 1;
__extension__ using twice_as_wide = unsigned __int128;

/// Returns x + y modulo the prime. Operands and results of these functions are below the prime.
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

/// Fingerprint of the products of elements in a sum.
///
/// The sums of an adaptive sum (kernel::dot_norms) are computed in parts, by several ranks, and added. This fingerprint
/// shows whether they contain all elements of two vectors, each once. It contains the number of elements. For two
/// random r it also contains the sum, over all elements e, of r^e times a number for the two vectors, modulo 2^61-1.
/// The right number of wrong elements, of vectors of length n, is overlooked with a probability of at most (6n /
/// 2^61)^2. The factor is 6 because r is a generator, and more than a sixth of all numbers are generators.
using products = fingerprint;

/// Returns the products of elements [begin, end) of two vectors, given by the hashes of their expressions
/// (postcondition.h).
products products_of(std::uint64_t lower, std::uint64_t higher, std::uint64_t begin, std::uint64_t end);

/// Returns the hash of the adaptive sum of two vectors, by sums of the products `by`.
std::uint64_t adaptive_tree(std::uint64_t lower, std::uint64_t higher, const products& by);

// --- random numbers ------------------------------------------------------------------------------------------

struct random_weights {
  std::array<std::array<std::uint64_t, 2>, 2> leaf_keys;  ///< for each sum: keys for the weights of leaves
  std::uint64_t tree_key;                                 ///< key for the hashes of leaves
  /// For each sum: the factor of a weight for a shift by one element. The factor generates the whole multiplicative
  /// group modulo 2^61-1, so weights that are shifted by different distances differ.
  std::array<std::uint64_t, 2> shift_steps;
  /// For each sum: the ratio r of the weights of two consecutive elements of a vector, and 1 / (r - 1).
  std::array<std::uint64_t, 2> element_steps, element_inverses;
};

/// Draws new weights. Throws std::system_error if the system cannot provide random numbers.
random_weights draw_weights();

/// Returns the weights of this process.
const random_weights& the_weights();

/// Returns the weights of a leaf, modulo 2^61-1. `number` is its hash (leaf_tree in postcondition.h).
std::array<std::uint64_t, 2> weight_of_leaf(const random_weights& by, std::uint64_t number);

}  // namespace lsched
