// Kernels and coefficients of Adasum, the adaptive sum of two vectors a and b. In a formula, a.b is the dot product of
// a and b.
//
//     AS(a, b) = (1 - a.b / (2 |a|^2)) a + (1 - a.b / (2 |b|^2)) b
//
// AS(a, b) is the sum if a and b are orthogonal, and the mean if a and b are parallel. (Maleki et al., "Scaling
// Distributed Training with Adaptive Summation", MLSys 2021, arXiv:2006.02924, Algorithm 1.) AS is symmetric,
// homogeneous of degree one, and not associative. This code differs from the paper in two points:
//
//   - A vector whose squared norm is below sqrt(DBL_MIN), about 1.5e-154, has the coefficient 1. So AS(g, 0) = g,
//     although the formula divides by zero. For f16, bf16 and f32, the squared norm is that small only if all elements
//     are zero.
//   - If a dot product is not finite, both coefficients and the whole result are NaN. So ranks with equal dot
//     products get NaN for the same pairs of vectors.
//
// Kernels exist for f16, bf16, f32 and f64. find_dot_norms(), find_scaled_add() and find_adaptive() return nullptr for
// integer types. The guarantees of ops/kernel.h hold. In addition, a and b may overlap, and the order of every
// summation depends only on the number of elements.
//
// A dot product ("dot") is summed in the following order. A vector is cut into blocks of k_dot_block elements, and the
// last block is padded with zeros. In a block, 16 partial sums (lanes) are formed: the product of element e is added to
// lane e modulo 16. Then the 16 lanes are added as a balanced tree. k_dot_group consecutive blocks form a group. The
// results of the blocks of a group are added from first to last, beginning with 0. Finally the results of the groups
// are added, also from first to last, beginning with 0. So a device can compute the groups in parallel, and only the
// short last sum is sequential. If a vector is split into halves, the dots of the halves can be added. This sum can
// differ in its last bits from the dot of the whole vector.
//
// For f32, f64 and bf16, products and sums are computed in f64. In f64, products of two f32 or bf16 numbers are exact.
// For f16, products are computed in f32, where they are exact. A block has 32 lanes of f32, and 32 products are added
// to each lane. Lanes i and i + 16 are then added in f32, and the 16 results in f64 as above.
//
// A dot can overflow f64 only if the elements are f64. The following bounds hold for all dots that do not overflow. Let
// M = sum |a[i] b[i]|, u = 2^-53 and n = (number of blocks in the first group) + (number of groups). The error of a dot
// is at most
//
//     f32, bf16   (68 + n) u M
//     f64         (69 + n) u M + 2^-1074 for each product that underflows
//     f16         (2^-19 + (5 + n) u) M
//
// The bound for f16 is rounded up: it exceeds the exact bound by a factor below 1 + 2^-18.
#pragma once

#include "ops/base.h"
#include "ops/kernel.h"

namespace lsched {

inline constexpr std::size_t k_dot_block = 1024;  ///< elements
inline constexpr std::size_t k_dot_group = 64;    ///< blocks

/// Computes sums[0] = a.b, sums[1] = a.a and sums[2] = b.b in one pass. All three are zero if count is 0. If a and b
/// are exchanged, sums[1] and sums[2] are exchanged, and all bits stay the same.
using dot_norms_fn = void (*)(const void* a, const void* b, std::size_t count, double* sums);
dot_norms_fn find_dot_norms(dtype type);

struct adasum_coefficients {
  double a;
  double b;
};

/// Returns the coefficients of a and b in AS(a, b). `sums` is the result of dot_norms. If a and b are exchanged, the
/// two coefficients are exchanged, and their bits stay the same. The magnitude of a coefficient can reach about half
/// the ratio of the two norms.
adasum_coefficients adasum_coefficients_of(const double sums[3]);

/// Computes c[i] = x * a[i] + y * b[i]. c must be disjoint from a and b, or identical with one or both of them. An
/// exchange of (x, a) and (y, b) does not change the bits of the result.
///
/// A coefficient is *moderate* if it is 0, or if its magnitude lies in [2^-100, 2^64] for f16, or in [2^-100, 2^9] for
/// bf16. For f32 and f64, both products and their sum are rounded to f64, and then the sum is rounded to the element's
/// type. If a coefficient is not moderate, f16 and bf16 are computed in the same way. In this case, the error of a
/// subnormal bf16 result can exceed the error of correct rounding by 2^-16 units in the last place. If both
/// coefficients are moderate, f16 and bf16 round the coefficients, the products and the sum to f32. The error of c[i]
/// is then at most
///
///     2^-22 (|x a[i]| + |y b[i]|) + 0.52 units in the last place of c[i].
///
/// Except for f64, an intermediate result overflows only if c[i] overflows.
using scaled_add_fn = void (*)(double x, const void* a, double y, const void* b, void* c, std::size_t count);
scaled_add_fn find_scaled_add(dtype type);

/// Returns the function of kernel `what`. `what` must be kernel::dot_norms or kernel::adasum. find() (ops/kernel.h)
/// calls this function. Returns nullptr if `type` is not a floating type.
kernel_fn find_adaptive(kernel what, dtype type);

/// The kernels of one floating dtype. This structure is internal to ops/adasum.
struct adaptive_kernels {
  dot_norms_fn dot_norms = nullptr;
  scaled_add_fn scaled_add = nullptr;
  kernel_fn dot_norms_call = nullptr;
  kernel_fn adasum_call = nullptr;
};

}  // namespace lsched
