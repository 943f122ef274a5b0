#include "microbench/baselines/normal_quantile.h"

#include <cmath>

namespace lsched {
namespace {

/// Coefficients, the highest power first.
template <class... Numbers>
double polynomial(double x, Numbers... coefficients) {
  double sum = 0;
  ((sum = sum * x + coefficients), ...);
  return sum;
}

double lower_tail(double probability) {
  const double q = std::sqrt(-2 * std::log(probability));
  return polynomial(q, -7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00, -2.549732539343734e+00,
                    4.374664141464968e+00, 2.938163982698783e+00) /
         polynomial(q, 7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00, 3.754408661907416e+00, 1.0);
}

double centre(double probability) {
  const double q = probability - 0.5;
  return q *
         polynomial(q * q, -3.969683028665376e+01, 2.209460984245205e+02, -2.759285104469687e+02, 1.383577518672690e+02,
                    -3.066479806614716e+01, 2.506628277459239e+00) /
         polynomial(q * q, -5.447609879822406e+01, 1.615858368580409e+02, -1.556989798598866e+02, 6.680131188771972e+01,
                    -1.328068155288572e+01, 1.0);
}

}  // namespace

double normal_quantile(double probability) {
  constexpr double end_of_tail = 0.02425;
  if (probability < end_of_tail) return lower_tail(probability);
  if (probability > 1 - end_of_tail) return -lower_tail(1 - probability);
  return centre(probability);
}

}  // namespace lsched
