// Adasum of two vectors, as far as it is arithmetic of a few doubles. The passes over vectors are in linear.h.
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

namespace lsched {

struct adasum_coefficients {
  double a;
  double b;
};

/// Of a and b in AS(a, b). `sums` is what dot_norms answers: a.b, |a|^2, |b|^2. Exchanging a and b in `sums` exchanges
/// the coefficients, and changes no bits. Magnitudes go up to half the ratio of the norms.
adasum_coefficients adasum_coefficients_of(const double sums[3]);

}  // namespace lsched
