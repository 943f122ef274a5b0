// Whether doubles are enough for a part of a Gram matrix, and what becomes of them then. Internal to ops/; the argument
// is in ops/gram_pairs.h.
#pragma once

#include <cstddef>

namespace lsched {

struct gram_tolerance {
  double error;          ///< of the sums: at most this times |xi| |xj|
  double amplification;  ///< of that error which does no harm
};

/// `sums` is a Gram matrix of n vectors, n at most k_most_adasum_leaves, with room for the same again behind it, which
/// is overwritten. True if no node p of any tree has m(p)^2 > amplification |p|^2, and if an entry is not finite.
bool are_doubles_enough(std::size_t n, gram_tolerance tolerance, double* sums);

/// Makes pairs of the n (n + 1) / 2 sums at the beginning of `pairs`.
void spread_to_pairs(std::size_t n, double* pairs);

}  // namespace lsched
