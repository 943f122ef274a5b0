// Fingerprints of multisets: how many elements one has, and two sums modulo 2^61-1 of the elements' weights.
//
// The number does not wrap around: what was once more than it can say stays more. So a multiset that has too many
// elements is told exactly, and one that has as many as it should, but not the right ones, is overlooked only if both
// sums of weights agree by chance.
//
// Weights are random and drawn once by each process, so nothing that was written before can have been made to fit
// them. Within a process they stay the same, so what one world holds can be compared with what another was promised;
// nothing that leaves the process may depend on them.
#pragma once

#include <array>
#include <compare>
#include <cstdint>

#include "ops/saturating.h"

namespace lsched {

// --- arithmetic modulo the prime 2^61-1 ----------------------------------------------------------------------

inline constexpr std::uint64_t k_prime = (std::uint64_t{1} << 61) - 1;
__extension__ using twice_as_wide = unsigned __int128;

/// Of numbers below the prime, as are all answers.
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
  std::uint64_t size = 0;                  ///< the largest number: that many, or more
  friend constexpr auto operator<=>(const fingerprint&, const fingerprint&) = default;
};

/// Of all that is in either.
constexpr fingerprint joined(const fingerprint& x, const fingerprint& y) {
  return {{modular_sum(x.weights[0], y.weights[0]), modular_sum(x.weights[1], y.weights[1])},
          saturating_sum(x.size, y.size)};
}

/// Which products of elements are in a sum.
///
/// The sums of an adaptive sum (kernel::dot_norms) are made part by part, by several ranks, and added. Whether all
/// elements of two vectors are in them, each once, is told by how many they are, and by the sum over the elements e of
/// r^e times a number that stands for the two vectors, modulo 2^61-1, with two random r. As many elements of vectors of
/// length n that are not the right ones are overlooked with a probability of at most (6n / 2^61)^2: fewer than every
/// fifth number can be r.
using products = fingerprint;

/// Of elements [begin, end) of two vectors, given by the hashes of their expressions (postcondition.h).
products products_of(std::uint64_t lower, std::uint64_t higher, std::uint64_t begin, std::uint64_t end);

/// The expression of the adaptive sum of the two by such sums.
std::uint64_t adaptive_tree(std::uint64_t lower, std::uint64_t higher, const products& by);

// --- random numbers ------------------------------------------------------------------------------------------

struct random_weights {
  std::array<std::array<std::uint64_t, 2>, 2> leaf_keys;  ///< for each sum: what leaves are weighed by
  std::uint64_t tree_key;                                 ///< what the hashes of expressions begin with
  /// For each sum: what a shift by one multiplies a weight with. It generates the whole group modulo 2^61-1, so weights
  /// that are shifted by different distances differ.
  std::array<std::uint64_t, 2> shift_steps;
  /// Likewise: by what the weights of a vector's elements grow from one to the next; and 1 divided by that less 1.
  std::array<std::uint64_t, 2> element_steps, element_inverses;
};

/// New ones. Throws std::system_error if the system has no random numbers to give.
random_weights draw_weights();

/// This process's.
const random_weights& the_weights();

/// Of an input, by number; modulo 2^61-1.
std::array<std::uint64_t, 2> weight_of_leaf(const random_weights& by, std::uint64_t number);

}  // namespace lsched
