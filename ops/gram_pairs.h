// The Gram matrix of n vectors, of which nobody holds more than a part: sums that can be added up across ranks once and
// for all, with no second look at the vectors whatever cancels in what is made of them (ops/adasum.h).
//
// An entry is a pair of doubles whose exact sum is meant, pairs[2k] + pairs[2k+1], the first of them the nearest to it,
// where k is the entry's gram_place (ops/linear.h): n (n + 1) doubles in all. An entry that is not finite is NaN, 0.
//
// Functions here do not allocate, and any number of threads may call them at once; the same bits in give the same bits
// out at every SIMD level.
#pragma once

#include "ops/base.h"

namespace lsched {

/// Doubles in the pairs of a Gram matrix of n vectors.
constexpr std::size_t gram_pairs_size(std::size_t n) { return n * (n + 1); }

/// The pairs of n vectors of `count` elements, n at most k_most_adasum_leaves. Alignment, null and overlap are as in
/// ops/linear.h. nullptr for integers.
using gram_pairs_fn = void (*)(const void* const* x, std::size_t n, std::size_t count, double* pairs);
gram_pairs_fn find_gram_pairs(dtype type);

/// total = parts[0] + … + parts[m-1], matrices of n vectors one behind the other, added in this order; zeros if m is 0.
/// Off by at most (m - 1) 2^-103 of the largest sum on the way. `total` may be the first of the parts, and overlaps no
/// other.
void add_gram_pairs(const double* parts, std::size_t m, std::size_t n, double* total);

}  // namespace lsched
