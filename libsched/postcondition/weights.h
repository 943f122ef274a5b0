// The random numbers that fingerprints and expressions go by.
//
// They are drawn once in the life of a process. Within it they stay the same, so what one world was found to hold can
// be compared with what another one was promised; nothing that leaves the process may depend on them.
#pragma once

#include <array>
#include <cstdint>

namespace lsched {

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
