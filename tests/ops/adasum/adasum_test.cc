// Tests the scalar part of Adasum against the properties of the operator, on vectors of doubles with plain sums.
#include "ops/adasum/adasum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace lsched {
namespace {

constexpr std::uint64_t k_seed = 20240612;

using numbers = std::vector<double>;

double dot(const numbers& a, const numbers& b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }

std::array<double, 3> sums_of(const numbers& a, const numbers& b) { return {dot(a, b), dot(a, a), dot(b, b)}; }

numbers weighted(double x, const numbers& a, double y, const numbers& b) {
  numbers c(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) c[i] = x * a[i] + y * b[i];
  return c;
}

numbers adasum(const numbers& a, const numbers& b) {
  const auto [x, y] = adasum_coefficients_of(sums_of(a, b).data());
  return weighted(x, a, y, b);
}

numbers times(double factor, numbers a) {
  for (double& each : a) each *= factor;
  return a;
}

/// |a - b| / |b|
double distance(const numbers& a, const numbers& b) {
  const numbers gap = weighted(1, a, -1, b);
  return std::sqrt(dot(gap, gap) / dot(b, b));
}

class adasum_of_two : public testing::Test {
 protected:
  numbers draw(std::size_t count = 40) {
    std::normal_distribution<double> normal;
    numbers drawn(count);
    for (double& each : drawn) each = normal(random_);
    return drawn;
  }
  std::mt19937_64 random_{k_seed};
};

TEST_F(adasum_of_two, is_symmetric_to_the_bit) {
  for (int i = 0; i < 100; ++i) {
    const auto [dot, a, b] = sums_of(draw(), draw());
    const adasum_coefficients one = adasum_coefficients_of(std::array{dot, a, b}.data());
    const adasum_coefficients other = adasum_coefficients_of(std::array{dot, b, a}.data());
    EXPECT_EQ(one.a, other.b);
    EXPECT_EQ(one.b, other.a);
  }
}

TEST_F(adasum_of_two, is_homogeneous) {
  const numbers a = draw();
  const numbers b = draw();
  for (const double factor : {0x1p-30, -0x1p10})
    EXPECT_EQ(adasum(times(factor, a), times(factor, b)), times(factor, adasum(a, b)));
  EXPECT_LE(distance(adasum(times(-0.3, a), times(-0.3, b)), times(-0.3, adasum(a, b))), 1e-15);
}

TEST_F(adasum_of_two, adds_orthogonal_vectors_and_averages_parallel_ones) {
  EXPECT_EQ(adasum({3, 0, 1}, {0, -7, 0}), (numbers{3, -7, 1}));
  const numbers g = draw();
  for (const double factor : {1.0, 2.0, 1e-20, 1e20, -2.0, -1e30})
    EXPECT_LE(distance(adasum(g, times(factor, g)), times((1 + factor) / 2, g)), 1e-15) << factor;
  EXPECT_EQ(adasum(g, g), g);
  EXPECT_EQ(adasum(g, times(-1, g)), numbers(g.size()));
  EXPECT_LE(distance(adasum(g, times(-2, g)), times(-0.5, g)), 1e-15);
}

TEST_F(adasum_of_two, takes_norms_in_a_ratio_of_1e40) {
  const numbers a = times(1e-20, draw());
  const numbers b = times(1e20, draw());
  const numbers result = adasum(a, b);
  const auto [d, norm_a, norm_b] = sums_of(a, b);
  EXPECT_LE(distance(result, weighted(-d / (2 * norm_a), a, 1, b)), 1e-15);
  EXPECT_GE(std::fabs(adasum_coefficients_of(std::array{d, norm_a, norm_b}.data()).a), 1e37);
}

TEST_F(adasum_of_two, leaves_a_vector_alone_if_the_other_is_zero) {
  const numbers g = draw();
  EXPECT_EQ(adasum(g, numbers(g.size())), g);
  EXPECT_EQ(adasum(numbers(g.size()), g), g);
  EXPECT_EQ(adasum(numbers(3), numbers(3)), numbers(3));
  const double tiny = 0x1p-256;  // the square of 2^-256 is below sqrt(DBL_MIN), but the square of 2^-255 is not
  EXPECT_EQ(adasum_coefficients_of(std::array{tiny * tiny, tiny * tiny, tiny * tiny}.data()).a, 1);
  EXPECT_EQ(adasum_coefficients_of(std::array{4 * tiny * tiny, 4 * tiny * tiny, 4 * tiny * tiny}.data()).a, 0.5);
}

TEST_F(adasum_of_two, of_anything_that_is_not_finite_is_nan) {
  for (const double wrong :
       {std::nan(""), std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()})
    for (std::size_t place = 0; place < 3; ++place) {
      std::array sums{1.0, 2.0, 3.0};
      sums[place] = wrong;
      const auto [a, b] = adasum_coefficients_of(sums.data());
      EXPECT_TRUE(std::isnan(a) && std::isnan(b)) << wrong << place;
    }
}

TEST_F(adasum_of_two, is_neither_longer_than_both_nor_shorter_than_half_their_difference) {
  const auto check_one = [](const numbers& a, const numbers& b) {
    const auto sums = sums_of(a, b);
    const numbers result = adasum(a, b);
    const double norm = dot(result, result);
    EXPECT_LE(norm, (sums[1] + sums[2]) * (1 + 1e-14));
    const double gap = std::sqrt(sums[1]) - std::sqrt(sums[2]);
    EXPECT_GE(norm * (1 + 1e-14) + 1e-14 * (sums[1] + sums[2]), gap * gap / 4);
  };
  const numbers g = draw();
  for (const double factor : {1.0, -1.0, 1e20, -1e-20, 0.0}) check_one(g, times(factor, g));
  for (const double factor : {1.0, -3.0, 1e20, 1e-20}) check_one(g, times(factor, draw()));
  for (int i = 0; i < 100; ++i) check_one(g, weighted(1, g, 0.1 * i, draw()));
  check_one(numbers(3), numbers(3));
}

}  // namespace
}  // namespace lsched
