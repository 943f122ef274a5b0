#include "collectives/baselines/gaussiank.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace lsched {
namespace {

/// Evaluates a polynomial. The coefficient of the highest power comes first.
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

constexpr double k_adjustment = 1.02;
constexpr unsigned k_most_adjustments = 20;

struct moments {
  double mean = 0;
  double deviation = 0;  ///< sample standard deviation
};

/// Uses four partial sums, which are added in a fixed order. Non-finite elements are left out.
template <class Element>
moments moments_of(const std::byte* vector, std::uint64_t count) {
  constexpr std::size_t lanes = 4;
  double sums[lanes] = {}, squares[lanes] = {}, finite[lanes] = {};
  for (std::uint64_t i = 0; i < count; ++i) {
    Element element;
    std::memcpy(&element, vector + i * sizeof element, sizeof element);
    const bool is_finite = std::abs(element) <= std::numeric_limits<Element>::max();
    const double value = is_finite ? static_cast<double>(element) : 0;
    sums[i % lanes] += value;
    squares[i % lanes] += value * value;
    finite[i % lanes] += is_finite ? 1 : 0;
  }
  const double n = finite[0] + finite[1] + finite[2] + finite[3];
  if (n < 1) return {};
  const double sum = sums[0] + sums[1] + sums[2] + sums[3];
  const double square = squares[0] + squares[1] + squares[2] + squares[3];
  const double variance = n > 1 ? (square - sum * (sum / n)) / (n - 1) : 0;
  return {sum / n, std::sqrt(variance < 0 ? 0 : variance)};
}

}  // namespace

double normal_quantile(double probability) {
  constexpr double end_of_tail = 0.02425;
  if (probability < end_of_tail) return lower_tail(probability);
  if (probability > 1 - end_of_tail) return -lower_tail(1 - probability);
  return centre(probability);
}

gaussiank::gaussiank(const sparse_problem& problem)
    : gathered_sum(problem, std::min(2 * most_items(problem), problem.count)),
      problem_(problem),
      k_(most_items(problem)) {}

gaussian_list gaussiank::select(std::byte* residual, const std::byte* gradient, std::byte* items) {
  constexpr magnitude_range nothing{1, 0};
  const sparse_kernels& kernels = sparse_kernels_of(problem_.type);
  kernels.accumulate_select({residual, gradient, problem_.scale, problem_.count}, nothing, nullptr, 0);
  if (k_ == 0) return {};
  double threshold = first_threshold(residual);
  select_result found = select_above(threshold, residual, items);
  gaussian_list made{.predicted = found.counted, .first_threshold = threshold};
  const bool finds_few = found.counted < 3 * k_ / 4;
  while (made.adjustments < k_most_adjustments &&
         (finds_few ? found.counted < 3 * k_ / 4 : found.counted > 5 * k_ / 4)) {
    threshold = finds_few ? threshold / k_adjustment : threshold * k_adjustment;
    found = select_above(threshold, residual, items);
    ++made.adjustments;
  }
  made.threshold = threshold;
  made.count = found.stored;
  if (found.counted <= found.stored) return made;
  const accumulation rest{.residual = residual, .count = problem_.count};
  made.count = kernels.top_k(rest, list_room(), problem_.nans, items, list_room(), hint_).count;
  return made;
}

double gaussiank::first_threshold(const std::byte* residual) const {
  const double density = static_cast<double>(k_) / static_cast<double>(problem_.count);
  const moments drawn = residual_of(problem_.type) == dtype::f64 ? moments_of<double>(residual, problem_.count)
                                                                 : moments_of<float>(residual, problem_.count);
  return drawn.mean - drawn.deviation * normal_quantile(density / 2);
}

/// Selects elements above a threshold. If the threshold is not positive, all elements that are not zero are above it.
/// NaNs and values that overflow f32 are above all numbers.
select_result gaussiank::select_above(double threshold, std::byte* residual, std::byte* items) const {
  const dtype type = residual_of(problem_.type);
  const std::uint64_t infinity = magnitude_in(type, std::numeric_limits<double>::infinity());
  magnitude_range range{.least = threshold > 0 ? magnitude_in(type, threshold) + 1 : 1};
  if (std::isnan(threshold)) range.least = infinity + 1;
  if (problem_.nans == nan_policy::ignore) range.most = infinity;
  const accumulation from{.residual = residual, .count = problem_.count};
  return sparse_kernels_of(problem_.type).accumulate_select(from, range, items, list_room());
}

}  // namespace lsched
