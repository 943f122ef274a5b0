// Kernels and coefficients of Adasum, the adaptive sum of two vectors.
//
//     AS(a, b) = (1 - a.b / (2 |a|^2)) a + (1 - a.b / (2 |b|^2)) b
//
// is the sum of orthogonal vectors and the mean of parallel vectors: Maleki et al., "Scaling Distributed Training with
// Adaptive Summation", MLSys 2021 (arXiv:2006.02924), Algorithm 1. It is symmetric, homogeneous of degree one, and not
// associative. This code differs from the paper in two points:
//
//   - A vector whose squared norm is below sqrt(DBL_MIN), about 1.5e-154, keeps the coefficient 1. So AS(g, 0) = g,
//     where the formula divides by zero. Vectors of f16, bf16 and f32 have such norms only if all elements are zero.
//   - If a dot product is not finite, both coefficients are NaN, and so is the whole result. This holds on every rank
//     that has the same dot products.
//
// Kernels exist for f16, bf16, f32 and f64. The find functions return nullptr for integers. The guarantees of
// ops/kernel.h hold. In addition, inputs may overlap each other, and the order of every summation depends only on
// count.
//
// A dot product ("dot") is summed in this order. A vector is cut into blocks of k_dot_block elements, and the last
// block is padded with zeros. In a block, the product of element e is added in lane e modulo 16, and then the 16 lanes
// are added as a balanced tree. The results of k_dot_group blocks are added from first to last, beginning with 0, and
// then the sums of these groups in the same way. So devices can add groups in parallel, and the rest of the sum is
// short. The dots of two halves of a vector need not add up to the bits of the dot of the whole.
//
// All sums are f64, in which products of f32 and bf16 are exact. f16 differs: its products are exact in f32, and are
// added in f32 in 32 lanes, 32 products of a block in each. The two halves of the lanes are added in f32, and the 16
// results in f64 as above.
//
// With M = sum |a[i] b[i]|, u = 2^-53 and n = the blocks of the first group + the number of groups, the error of a dot
// is at most
//
//     f32, bf16   (68 + n) u M
//     f64         (69 + n) u M, and 2^-1074 for each product that underflows
//     f16         (2^-19 + (5 + n) u) M, rounded up by less than one part in 2^18
//
// unless the dot overflows f64, which only dots of f64 can.
#pragma once

#include "ops/base.h"
#include "ops/kernel.h"

namespace lsched {

inline constexpr std::size_t k_dot_block = 1024;  ///< elements
inline constexpr std::size_t k_dot_group = 64;    ///< blocks

/// Computes sums[0] = a.b, sums[1] = a.a and sums[2] = b.b in one pass. All three are zero if count is 0. Exchanging a
/// and b exchanges sums[1] and sums[2], and changes no bits.
using dot_norms_fn = void (*)(const void* a, const void* b, std::size_t count, double* sums);
dot_norms_fn find_dot_norms(dtype type);

struct adasum_coefficients {
  double a;
  double b;
};

/// Returns the coefficients of a and b in AS(a, b), from the sums of dot_norms. Exchanging a and b in `sums` exchanges
/// the coefficients, and changes no bits. Magnitudes go up to half the ratio of the norms.
adasum_coefficients adasum_coefficients_of(const double sums[3]);

/// Computes c[i] = x * a[i] + y * b[i]. c is disjoint from a and b, or identical with one or both. Exchanging (x, a)
/// with (y, b) changes no bits.
///
/// For f32 and f64, both products and their sum are rounded to f64, and the sum to the element's type. The same holds
/// for f16 and bf16 if a coefficient is not moderate. bf16 results below 2^-126 may then differ from the nearest value
/// by 2^-16 units in the last place. If both coefficients are moderate, f16 and bf16 round coefficients, products and
/// sum to f32, and the error of c[i] is at most
///
///     2^-22 (|x a[i]| + |y b[i]|) + 0.52 units in its last place.
///
/// Moderate coefficients are 0 and magnitudes from 2^-100 to 2^64 (f16) or to 2^9 (bf16). Except for f64, an
/// intermediate result overflows only if c[i] does.
using scaled_add_fn = void (*)(double x, const void* a, double y, const void* b, void* c, std::size_t count);
scaled_add_fn find_scaled_add(dtype type);

/// Returns the kernels for `find`: dot_norms or adasum.
kernel_fn find_adaptive(kernel what, dtype type);

/// The kernels of one floating dtype. Internal to ops/adasum.
struct adaptive_kernels {
  dot_norms_fn dot_norms = nullptr;
  scaled_add_fn scaled_add = nullptr;
  kernel_fn dot_norms_call = nullptr;
  kernel_fn adasum_call = nullptr;
};

}  // namespace lsched
