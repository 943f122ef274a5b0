// The Gram matrix of n vectors, of which nobody holds more than a part: sums that can be added up across ranks once and
// for all, with no second look at the vectors whatever cancels in what is made of them (ops/adasum.h).
//
// An entry is a pair of doubles whose exact sum is meant, pairs[2k] + pairs[2k+1], the first of them the nearest to it,
// where k is the entry's gram_place (ops/linear.h): n (n + 1) doubles in all. An entry that is not finite is NaN, 0.
//
// Functions here do not allocate, and any number of threads may call them at once; the same bits in give the same bits
// out at every SIMD level.
//
// Compensated sums. Blocks and lanes are those of f64 in ops/linear.h, for all types. A lane begins at a bias of
// 1.5 2^k, with 2^(k-1) above the product of the norms of both vectors' blocks, and so stays in its binade: sums of
// lanes, without the bias, are exact, and what rounding took from each addition is added up beside them, in doubles.
// The results of the blocks are added as pairs. An entry is off by at most
//
//     (2^-88 + blocks 2^-104) |xi| |xj|, and 2^-1074 for each product of f64 that underflows
//
// (a block's 2^10 losses are at most 2^k 2^-53 each, which is 5.7 2^-53 of the product of the norms, and adding them up
// costs another 37.5 2^-53 of what they come to, a norm below 2^-510 counting as that); as a rule it is less than
// 2^-97. It overflows where the product of two blocks' norms does, at 2^1022.
//
// When plain sums will do. A node of a tree is a weighted sum, of weights p, of the vectors. Let m(p) = sum |p_i|
// |x_i|, and C the matrix of cosines of the vectors that are not zero. With q_i = p_i |x_i|, s the signs of q, and
// Cauchy-Schwarz,
//
//     m(p)^2 = (s'q)^2 <= (s'C^-1 s) (q'C q) <= K |p|^2,     K = sum of the magnitudes in C^-1.
//
// Plain sums with an error of e |xi| |xj| give p'Gr with one of e m(p) m(r) <= e K |p| |r|. Parts of the vectors have
// all of that separately, and over parts |p|^2 adds up without cancellation: the sum of all |p| |r| is at most |p| |r|
// of the whole. So if each part's own K is at most 2^20 (for f16 and f64, 2^8), its plain sums do the same to every
// node of every tree as if the dots of that node's operands had been taken directly with an error of e K, however much
// cancels: at most 2^-26 for f32 and bf16, 2^-11 for f16, 2^-38 for f64. Where K is larger, and where squares of f64
// come near to underflow, sums are compensated; so they are if there are fewer elements than vectors, since C is
// singular then.
//
// What these sums do not tell. Relatively, the squared norm of a node that is the part r of what it would be if nothing
// cancelled is off by up to 2^-88 / r^2, as a rule by less than 2^-97 / r^2. So a tree by pairs is as exact as one that
// rounds each node to f64, 2^-53 / r, down to an r of 2^-35 at the worst and of 2^-44 as a rule; a node whose r is
// 2^-46 or less counts as zeros (ops/adasum.h), which the tree that rounds its nodes still knows to 2^-53 / r. What is
// merged with such a node is then off by up to half its own norm. Of types narrower than f64 the rounding of a node is
// coarser than that.
//
// C itself is known from those sums, and with an error of e in each of its entries; so is 1/K to within e, and
// inverting C costs less than 1 % of K for up to 64 vectors. So what is tested is 1.01 K (1/2^20 + e) <= 1.
#pragma once

#include "ops/base.h"
#include "ops/linear.h"

namespace lsched {

/// Doubles in the pairs of a Gram matrix of n vectors.
constexpr std::size_t gram_pairs_size(std::size_t n) { return n * (n + 1); }

/// The pairs of n vectors of `count` elements, n at most k_most_adasum_leaves, with plain sums (the second of each pair
/// is 0) where they will do, and compensated ones else. Takes one pass over the vectors, or two more, and n^3 steps.
/// Alignment, null and overlap are as in ops/linear.h. nullptr for integers.
using gram_pairs_fn = void (*)(const void* const* x, std::size_t n, std::size_t count, double* pairs);
gram_pairs_fn find_gram_pairs(dtype type);

/// The same, compensated whatever the vectors are.
gram_pairs_fn find_compensated_gram(dtype type);

/// As find_weighted_sum, with weights w[k] + w[n + k] and twice the digits: off by a rounding of the result, and by at
/// most (4 n + 8) 2^-106 of sum |w[k] x[k][i]|.
weighted_sum_fn find_compensated_weighted_sum(dtype type);

/// total = parts[0] + … + parts[m-1], matrices of n vectors one behind the other, added in this order; zeros if m is 0.
/// Off by at most (m - 1) 2^-103 of the largest sum on the way. `total` may be the first of the parts, and overlaps no
/// other.
void add_gram_pairs(const double* parts, std::size_t m, std::size_t n, double* total);

}  // namespace lsched
