// Adasum of two vectors: its kernels, and its coefficients.
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
// Kernels exist for f16, bf16, f32 and f64; the find functions answer nullptr for integers. What ops/kernel.h promises
// of all kernels holds here; inputs may overlap each other, and the order of every summation depends on count alone.
//
// How dots are summed. A vector is cut into blocks of k_dot_block elements, the last one padded with zeros. In a block,
// the product of element e goes to lane e modulo 16 and is added there; the 16 lanes are added as a balanced tree. The
// results of k_dot_group blocks are added from first to last, beginning with 0, and the sums of these groups likewise:
// devices add groups side by side, and what is left to add in a row is short. So the dots of two halves of a vector,
// added, need not be the bits of the whole. All of it is f64, where products of f32 and bf16 are exact, but for f16:
// there the products, exact in f32, are added in f32 in 32 lanes, a block of 32 to each, the two halves of the lanes
// are added in f32, and then the 16 of them as above in f64.
//
// With M = sum |a[i] b[i]|, u = 2^-53 and n = the blocks of the first group + the number of groups, a dot is off by at
// most
//
//     f32, bf16   (68 + n) u M
//     f64         (69 + n) u M, and 2^-1074 for each product that underflows
//     f16         (2^-19 + (5 + n) u) M, rounded up by less than one part in 2^18
//
// unless it overflows f64, which only dots of f64 can.
#pragma once

#include "ops/base.h"
#include "ops/kernel.h"

namespace lsched {

inline constexpr std::size_t k_dot_block = 1024;  ///< elements
inline constexpr std::size_t k_dot_group = 64;    ///< blocks

/// sums[0] = a.b, sums[1] = a.a, sums[2] = b.b, in one pass. Three zeros where count is 0. Exchanging a and b exchanges
/// sums[1] and sums[2], and changes no bits.
using dot_norms_fn = void (*)(const void* a, const void* b, std::size_t count, double* sums);
dot_norms_fn find_dot_norms(dtype type);

struct adasum_coefficients {
  double a;
  double b;
};

/// Of a and b in AS(a, b), from the sums of dot_norms. Exchanging a and b in `sums` exchanges the coefficients, and
/// changes no bits. Magnitudes go up to half the ratio of the norms.
adasum_coefficients adasum_coefficients_of(const double sums[3]);

/// c[i] = x * a[i] + y * b[i]. c is disjoint from a and b, or identical with one or both. Exchanging (x, a) with (y, b)
/// changes no bits.
///
/// f32 and f64: both products and their sum are rounded to f64, and that to the element. f16 and bf16 likewise if a
/// coefficient is not moderate; bf16 results below 2^-126 may then differ from the nearest by 2^-16 units in the last
/// place. If both are moderate, coefficients, products and sum are rounded to f32, and c[i] is off by at most
///
///     2^-22 (|x a[i]| + |y b[i]|) + 0.52 units in its last place.
///
/// Moderate are 0 and magnitudes from 2^-100 to 2^64 (f16) or to 2^9 (bf16). Except in f64, no intermediate overflows
/// whose result would not.
using scaled_add_fn = void (*)(double x, const void* a, double y, const void* b, void* c, std::size_t count);
scaled_add_fn find_scaled_add(dtype type);

/// What `find` answers of dot_norms and adasum.
kernel_fn find_adaptive(kernel what, dtype type);

/// The kernels of one floating dtype. Internal to ops/adasum.
struct adaptive_kernels {
  dot_norms_fn dot_norms = nullptr;
  scaled_add_fn scaled_add = nullptr;
  kernel_fn dot_norms_call = nullptr;
  kernel_fn adasum_call = nullptr;
};

}  // namespace lsched
