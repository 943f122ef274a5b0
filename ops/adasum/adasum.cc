#include "ops/adasum/adasum.h"

#include <cmath>
#include <limits>

namespace lsched {
namespace {

/// sqrt(DBL_MIN)
constexpr double k_least_norm = 0x1p-511;
static_assert(k_least_norm * k_least_norm == std::numeric_limits<double>::min());

constexpr double k_nan = std::numeric_limits<double>::quiet_NaN();

bool are_finite(const double sums[3]) {
  return std::isfinite(sums[0]) && std::isfinite(sums[1]) && std::isfinite(sums[2]);
}

/// How often the vector of that norm fits into the other's projection on it; 0 where there is no vector to speak of.
/// Divided before anything is multiplied: no larger than the ratio of the norms, whatever their scale.
double share(double dot, double norm) { return norm >= k_least_norm ? dot / norm : 0; }

}  // namespace

adasum_coefficients adasum_coefficients_of(const double sums[3]) {
  if (!are_finite(sums)) return {k_nan, k_nan};
  return {1 - share(sums[0], sums[1]) * 0.5, 1 - share(sums[0], sums[2]) * 0.5};
}

}  // namespace lsched
