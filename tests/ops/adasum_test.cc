// The scalar side of Adasum against the operator's own properties, on vectors of doubles that are added up plainly.
#include "ops/adasum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "ops/gram_pairs.h"
#include "ops/linear.h"

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
using adasum_of_many = adasum_of_two;

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
  const double tiny = 0x1p-256;  // its square is below sqrt(DBL_MIN), and 2^-255's is not
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

// ---- trees

/// Merge by merge, in doubles.
numbers along(const adasum_tree& tree, std::vector<numbers> nodes) {
  for (std::size_t m = 0; m + 1 < tree.leaves; ++m)
    nodes.push_back(adasum(nodes[tree.merges[m].lower], nodes[tree.merges[m].upper]));
  return nodes.back();
}

struct one_shot {
  numbers result;
  adasum_weighing weighing;
};

one_shot at_once(const adasum_tree& tree, const std::vector<numbers>& leaves) {
  const std::size_t n = tree.leaves;
  numbers pairs(gram_pairs_size(n)), weights(2 * n);
  std::vector<const void*> x;
  for (const numbers& leaf : leaves) x.push_back(leaf.data());
  find_gram_pairs(dtype::f64)(x.data(), n, leaves[0].size(), pairs.data());
  one_shot made{numbers(leaves[0].size()), adasum_weights(tree, pairs.data(), weights.data())};
  find_compensated_weighted_sum(dtype::f64)(weights.data(), x.data(), n, made.result.data(), made.result.size());
  return made;
}

TEST(adasum_tree, shapes_are_valid_and_as_described) {
  using merge = adasum_tree::merge;
  for (std::size_t n = 1; n <= k_most_adasum_leaves; ++n) {
    EXPECT_TRUE(is_valid(folded_adasum_tree(n))) << n;
    EXPECT_TRUE(is_valid(linear_adasum_tree(n))) << n;
  }
  const adasum_tree five = folded_adasum_tree(5);
  EXPECT_EQ(five.merges[0], (merge{0, 1}));
  EXPECT_EQ(five.merges[1], (merge{5, 2}));
  EXPECT_EQ(five.merges[2], (merge{3, 4}));
  EXPECT_EQ(five.merges[3], (merge{6, 7}));
  EXPECT_EQ(linear_adasum_tree(4).merges[2], (merge{5, 3}));
}

TEST(adasum_tree, that_is_none_is_recognised) {
  const auto changed = [](std::size_t place, adasum_tree::merge merge) {
    adasum_tree tree = folded_adasum_tree(4);
    tree.merges[place] = merge;
    return is_valid(tree);
  };
  EXPECT_TRUE(changed(0, {0, 1}));
  EXPECT_FALSE(changed(0, {1, 0}));  // upper first
  EXPECT_FALSE(changed(0, {0, 0}));
  EXPECT_FALSE(changed(0, {0, 4}));  // not made yet
  EXPECT_FALSE(changed(1, {1, 2}));  // taken
  EXPECT_FALSE(changed(2, {5, 4}));
  EXPECT_FALSE(is_valid({.leaves = 0}));
  EXPECT_FALSE(is_valid({.leaves = k_most_adasum_leaves + 1}));
}

TEST_F(adasum_of_many, at_once_is_what_it_is_merge_by_merge) {
  for (std::size_t n = 1; n <= 9; ++n)
    for (const adasum_tree& tree : {folded_adasum_tree(n), linear_adasum_tree(n)})
      for (const double common : {0.0, 1.0, -3.0}) {
        const numbers shared = draw(100);
        std::vector<numbers> leaves;
        for (std::size_t i = 0; i < n; ++i)
          leaves.push_back(weighted(common, shared, std::exp2(0.7 * static_cast<double>(i)), draw(100)));
        const numbers wanted = along(tree, leaves);
        const one_shot made = at_once(tree, leaves);
        EXPECT_LE(distance(made.result, wanted), 1e-12) << n;
        EXPECT_NEAR(made.weighing.norm, dot(wanted, wanted), 1e-12 * dot(wanted, wanted)) << n;
      }
}

TEST_F(adasum_of_many, of_collinear_vectors_halves_a_leaf_at_every_merge_above_it) {
  const numbers g = draw();
  const one_shot linear =
      at_once(linear_adasum_tree(7), {g, times(2, g), times(3, g), times(4, g), times(5, g), times(6, g), times(7, g)});
  EXPECT_LE(distance(linear.result, times(6.015625, g)), 1e-14);
  std::vector<numbers> all(64, g);
  EXPECT_LE(distance(at_once(folded_adasum_tree(64), all).result, g), 1e-14);
  EXPECT_EQ(at_once(linear_adasum_tree(64), all).weighing.amplification, 1);
}

TEST_F(adasum_of_many, passes_zero_vectors_by) {
  const numbers g = draw(), h = draw(), zero(40);
  const one_shot made = at_once(folded_adasum_tree(5), {zero, g, zero, zero, h});
  EXPECT_LE(distance(made.result, adasum(g, h)), 1e-15);
  EXPECT_EQ(at_once(linear_adasum_tree(3), {zero, zero, zero}).result, zero);
}

TEST_F(adasum_of_many, counts_weights_of_unlike_sign_as_cancellation) {
  const numbers g = draw();
  const one_shot made = at_once(folded_adasum_tree(2), {g, times(10, g)});  // -4 g + 9.5 g
  EXPECT_NEAR(made.weighing.amplification, 13.5 * 13.5 / (5.5 * 5.5), 1e-12);
}

TEST_F(adasum_of_many, takes_a_node_that_cancels_for_zero) {
  const numbers g = draw(), h = draw(), k = draw();
  const numbers wanted = adasum(h, k);
  EXPECT_LE(distance(at_once(folded_adasum_tree(4), {g, times(-1, g), h, k}).result, wanted), 1e-14);
  EXPECT_LE(distance(at_once(linear_adasum_tree(3), {g, times(-1, g), h}).result, h), 1e-14);
}

TEST_F(adasum_of_many, of_anything_that_is_not_finite_is_nan) {
  numbers g = draw();
  g[7] = std::numeric_limits<double>::infinity();
  const one_shot made = at_once(folded_adasum_tree(3), {draw(), g, draw()});
  for (const double each : made.result) EXPECT_TRUE(std::isnan(each));
  EXPECT_TRUE(std::isnan(made.weighing.norm));
}

}  // namespace
}  // namespace lsched
