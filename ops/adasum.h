// Adasum of two vectors, and of many along a tree, as far as it is arithmetic of a few doubles. The passes over vectors
// are in ops/linear.h.
//
//     AS(a, b) = (1 - a.b / (2 |a|^2)) a + (1 - a.b / (2 |b|^2)) b
//
// is the sum of orthogonal vectors and the mean of parallel ones: Maleki et al., "Scaling Distributed Training with
// Adaptive Summation", MLSys 2021 (arXiv:2006.02924), Algorithm 1. It is symmetric, homogeneous of degree one, and not
// associative. Where we depart from the paper:
//
//   - A vector whose squared norm is below sqrt(DBL_MIN), about 1.5e-154, keeps the coefficient 1, so that
//     AS(g, 0) = g where the formula divides by zero. Data of f16, bf16 and f32 come that low only if all are zero.
//   - If a dot is not finite, both coefficients are NaN, and with them the whole result, on every rank that has the
//     same dots.
//
// All functions here are pure, and the same bits in give the same bits out. They allocate nothing; any number of
// threads may call them at once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace lsched {

struct adasum_coefficients {
  double a;
  double b;
};

/// Of a and b in AS(a, b). `sums` is what dot_norms answers: a.b, |a|^2, |b|^2. Exchanging a and b in `sums` exchanges
/// the coefficients, and changes no bits. Magnitudes go up to half the ratio of the norms.
adasum_coefficients adasum_coefficients_of(const double sums[3]);

inline constexpr std::size_t k_most_adasum_leaves = 64;

/// In which order vectors are combined. Node i < leaves is the i-th vector, node leaves + m the result of the m-th
/// merge, and the last merge makes the result of all. Each node but that is operand of one merge, made before it.
struct adasum_tree {
  struct merge {
    std::uint8_t lower = 0;  ///< the node whose least leaf is the lower one
    std::uint8_t upper = 0;
    friend bool operator==(const merge&, const merge&) = default;
  };
  std::size_t leaves = 0;                                ///< at most k_most_adasum_leaves
  std::array<merge, k_most_adasum_leaves - 1> merges{};  ///< of which leaves - 1 count
  friend bool operator==(const adasum_tree&, const adasum_tree&) = default;
};

/// True of trees as described above, with at least one leaf.
bool is_valid(const adasum_tree& tree);

/// The tree of recursive halving and doubling, for any number: with 2^k the largest power of two up to `leaves` and r
/// what is left, leaves 2i and 2i + 1 merge first for i < r; then neighbours of the 2^k, then neighbouring pairs, and
/// so on. Of five: (((0 1) 2) (3 4)). `leaves` is from 1 to k_most_adasum_leaves.
adasum_tree folded_adasum_tree(std::size_t leaves);

/// ((0 1) 2) 3 …
adasum_tree linear_adasum_tree(std::size_t leaves);

/// What adasum_weights says of the result.
struct adasum_weighing {
  double norm = 0;           ///< its |.|^2
  double amplification = 1;  ///< the largest m(p)^2 / |p|^2 of all nodes, see below: at least 1
  bool cancels = false;      ///< the weighted sum has to be a compensated one, of both parts of each weight
};

/// Weights with which the result of a valid tree is sum weights[i] * x[i], from the Gram matrix of the vectors x as
/// pairs (ops/gram_pairs.h): the tree without a pass over vectors between its merges. `weights` has room for 2
/// `leaves`: first the weights as doubles, then what these are short of them, zeros unless the sum cancels. Takes about
/// leaves^2 / 2 multiply-adds.
///
/// Each node is kept as the weights of its leaves. For two of them, p and q, a merge needs d = p'Gq, and their norms
/// A = p'Gp and B = q'Gq, which follow from those of their own operands: |x p + y q|^2 = x (x A + y d) + y (x d + y B).
///
/// What errors do. Let m(p) be sum |p_i| |x_i|, the norm that p would have if nothing cancelled. If entries of G are
/// off by at most e |xi| |xj|, and arithmetic by as much, p'Gq is off by at most about e m(p) m(q): relatively, of
/// norms, by e times the amplification. In f64 e is about leaves 2^-53. So that is how it is done first; and if the
/// amplification passes 2^8, again with twice the digits, where e is 2^-88 at the worst and 2^-97 as a rule
/// (ops/gram_pairs.h).
///
/// Weights have twice the digits then, too, and so has the weighted sum. With weights of doubles the direction of a
/// node with |p| = r m(p) would be known to 2^-53 / r, and what is lost there is multiplied at every merge above by the
/// coefficients that weights are made of. The direct tree does better: it rounds x a + y b, but then goes by the norm
/// of what it has. So the error is that of the norms, e / r^2: less than 2^-53 / r down to an r of 2^-35 at the worst
/// and 2^-44 as a rule.
///
/// A node with r up to 2^-46 is nothing but such roundings, or zero, as AS(g, -g) is, and counts as zeros: it and what
/// it is merged with get the coefficient 1.
///
/// If an entry of G is not finite, all weights are NaN and the norm is.
adasum_weighing adasum_weights(const adasum_tree& tree, const double* pairs, double* weights);

}  // namespace lsched
