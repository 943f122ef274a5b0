// Numbers with twice the digits of a double: the exact, unevaluated sum of two of them. Internal to ops/.
//
// hi is the double nearest to hi + lo. Sums, products and quotients are off by at most 4, 8 and 16 units of 2^-106 of
// what goes in; a sum that cancels therefore loses digits. Where a result is not finite, hi is not.
#pragma once

#include <cmath>
#include <limits>

namespace lsched {

struct double_double {
  double hi = 0;
  double lo = 0;

  constexpr double_double() = default;
  constexpr double_double(double value) : hi(value) {}  // NOLINT(google-explicit-constructor): exact
  constexpr double_double(double high, double low) : hi(high), lo(low) {}
  explicit constexpr operator double() const { return hi; }
};

/// a + b, exactly (Knuth).
constexpr double_double two_sum(double a, double b) {
  const double sum = a + b;
  const double of_b = sum - a;
  return {sum, (a - (sum - of_b)) + (b - of_b)};
}

/// The same where |a| >= |b|, or a is 0 (Dekker).
constexpr double_double ordered_sum(double a, double b) {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}

inline double_double operator+(double_double a, double_double b) {
  const double_double high = two_sum(a.hi, b.hi);
  const double_double low = two_sum(a.lo, b.lo);
  const double_double sum = ordered_sum(high.hi, high.lo + low.hi);
  return ordered_sum(sum.hi, sum.lo + low.lo);
}

inline double_double operator*(double a, double_double b) {
  const double high = a * b.hi;
  return ordered_sum(high, std::fma(a, b.lo, std::fma(a, b.hi, -high)));
}

inline double_double operator*(double_double a, double_double b) {
  const double high = a.hi * b.hi;
  const double low = std::fma(a.hi, b.hi, -high);
  return ordered_sum(high, low + (a.hi * b.lo + a.lo * b.hi));
}

/// Two digits of a long division.
inline double_double operator/(double_double a, double_double b) {
  const double first = a.hi / b.hi;
  const double_double rest = a + -first * b;
  const double second = rest.hi / b.hi;
  const double third = (rest + -second * b).hi / b.hi;
  const double_double sum = ordered_sum(first, second);
  return ordered_sum(sum.hi, sum.lo + third);
}

/// A pair in memory that is not finite becomes the quiet NaN without payload, and 0.
constexpr void make_canonical_pair(double* pair) {
  if (pair[0] - pair[0] == 0) return;
  pair[0] = std::numeric_limits<double>::quiet_NaN();
  pair[1] = 0;
}

}  // namespace lsched
