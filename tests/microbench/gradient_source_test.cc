// Tests of the random gradients of experiments. The same seed, rank and round must give the same gradient. Other seeds,
// ranks or rounds must give other gradients. Each kind of gradient must have the distribution that its name promises.
#include "microbench/lockstep/gradient_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "libsched/schedule/geometry.h"
#include "tests/ops/lists.h"

namespace lsched {
namespace {

std::vector<float> drawn(const gradient_options& options, rank of, round_no round) {
  std::vector<float> values(options.count);
  gradient_source(options).draw(of, round, values);
  return values;
}

/// Returns the indices of the k largest elements.
std::vector<std::size_t> largest(const std::vector<float>& of, std::size_t k) {
  std::vector<std::size_t> all(of.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  std::stable_sort(all.begin(), all.end(),
                   [&](std::size_t a, std::size_t b) { return std::fabs(of[a]) > std::fabs(of[b]); });
  all.resize(k);
  return all;
}

double correlation(const std::vector<float>& a, const std::vector<float>& b) {
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    ab += x * y, aa += x * x, bb += y * y;
  }
  return ab / std::sqrt(aa * bb);
}

TEST(GradientSource, has_a_name_for_every_kind) {
  for (const gradient_kind kind : k_all_gradient_kinds) EXPECT_EQ(gradient_kind_named(name_of(kind)), kind);
  EXPECT_FALSE(gradient_kind_named("").has_value());
  EXPECT_FALSE(gradient_kind_named("Uniform").has_value());
}

TEST(GradientSource, draws_the_same_again_and_otherwise_something_else) {
  for (const gradient_kind kind : k_all_gradient_kinds) {
    SCOPED_TRACE(name_of(kind));
    gradient_options options{.kind = kind, .seed = 5, .count = 3001, .ranks = 3};
    const std::vector<float> first = drawn(options, 1, 4);
    EXPECT_EQ(drawn(options, 1, 4), first);
    EXPECT_NE(drawn(options, 1, 5), first);
    EXPECT_NE(drawn(options, 2, 4), first);
    options.seed = 6;
    EXPECT_NE(drawn(options, 1, 4), first);
  }
}

TEST(GradientSource, does_not_depend_on_what_was_drawn_before) {
  const gradient_options options{.kind = gradient_kind::layered, .count = 1000, .ranks = 3};
  gradient_source source(options);
  std::vector<float> values(options.count);
  for (const round_no round : {2U, 1U, 1U, 2U})
    for (const rank r : {2, 0}) {
      source.draw(r, round, values);
      EXPECT_EQ(values, drawn(options, r, round)) << r << " in " << round;
    }
}

TEST(GradientSource, draws_elements_one_by_one) {
  const std::vector<float> all = drawn({.count = 1000}, 0, 1);
  for (const std::size_t count : k_lengths)
    EXPECT_TRUE(std::equal(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count),
                           drawn({.count = count}, 0, 1).begin()));
}

TEST(GradientSource, rounds_to_other_types) {
  for (const dtype type : k_floats) {
    gradient_source source({.kind = gradient_kind::layered, .count = 777, .ranks = 2});
    std::vector<float> wanted(777);
    source.draw(1, 3, wanted);
    const dense_in_memory made(type, elements(777, 0));
    source.draw(1, 3, type, made.data());
    const elements content = made.content();
    for (std::size_t i = 0; i < content.size(); ++i)
      ASSERT_EQ(content[i], bits_of(type, static_cast<double>(wanted[i]))) << name_of(type) << " " << i;
    EXPECT_TRUE(made.is_intact());
  }
}

TEST(GradientSource, is_laplace_and_independent_where_uniform) {
  const gradient_options options{.count = std::uint64_t{1} << 18, .ranks = 2};
  const std::vector<float> values = drawn(options, 0, 1);
  double sum = 0, magnitudes = 0;
  for (const float it : values) {
    ASSERT_TRUE(std::isfinite(it));
    sum += static_cast<double>(it), magnitudes += std::fabs(static_cast<double>(it));
  }
  const auto count = static_cast<double>(options.count);
  EXPECT_NEAR(sum / count, 0, 0.01);
  EXPECT_NEAR(magnitudes / count, 1, 0.01);
  for (const double limit : {0.5, 1.0, 3.0, 6.0}) {
    const auto above = static_cast<double>(std::count_if(
        values.begin(), values.end(), [&](float it) { return std::fabs(static_cast<double>(it)) > limit; }));
    EXPECT_NEAR(above / count, std::exp(-limit), 4 * std::sqrt(std::exp(-limit) / count)) << limit;
  }
  EXPECT_NEAR(correlation(values, drawn(options, 1, 1)), 0, 0.01);
  EXPECT_NEAR(correlation(values, drawn(options, 0, 2)), 0, 0.01);
}

TEST(GradientSource, has_layers_of_which_ranks_share_one_half) {
  const gradient_options options{.kind = gradient_kind::layered, .count = std::uint64_t{1} << 18, .ranks = 2};
  const std::vector<float> values = drawn(options, 0, 1);
  EXPECT_NEAR(correlation(values, drawn(options, 1, 1)), 0.5, 0.05);
  EXPECT_NEAR(correlation(values, drawn(options, 0, 2)), 0, 0.05);
  std::vector<std::size_t> per_64th(64);
  for (const std::size_t index : largest(values, options.count / 100)) ++per_64th[index * 64 / options.count];
  EXPECT_GT(*std::max_element(per_64th.begin(), per_64th.end()), 3 * options.count / 6400);
}

TEST(GradientSource, has_nearly_all_that_is_large_in_one_region) {
  const gradient_options options{.kind = gradient_kind::one_region, .count = 1 << 16, .ranks = 2};
  std::vector<std::size_t> per_64th(64);
  for (const rank r : {0, 1})
    for (const std::size_t index : largest(drawn(options, r, 1), 655)) ++per_64th[index * 64 / options.count];
  EXPECT_EQ(*std::max_element(per_64th.begin(), per_64th.end()), 2 * 655);
}

TEST(GradientSource, sends_all_to_one_owner_and_no_index_twice) {
  for (const rank ranks : {3, 5, 7, 8}) {
    const gradient_options options{.kind = gradient_kind::one_owner, .count = 6400, .ranks = ranks};
    const cut parts(options.count, static_cast<std::uint64_t>(ranks));
    const std::size_t k = options.count / static_cast<std::size_t>(ranks * ranks);
    std::vector<std::size_t> indices;
    for (rank r = 0; r < ranks; ++r)
      for (const std::size_t index : largest(drawn(options, r, 1), k)) indices.push_back(index);
    std::sort(indices.begin(), indices.end());
    EXPECT_EQ(std::adjacent_find(indices.begin(), indices.end()), indices.end());
    std::uint64_t part = 0;
    while (parts.begin(part + 1) <= indices.front()) ++part;
    EXPECT_LT(indices.back(), parts.begin(part + 1));
  }
}

TEST(GradientSource, draws_integers_that_f32_can_add) {
  for (const gradient_kind kind : k_all_gradient_kinds) {
    SCOPED_TRACE(name_of(kind));
    std::size_t others = 0;
    for (const rank r : {0, 3, 6})
      for (const float it : drawn({.kind = kind, .count = 1 << 16, .ranks = 7, .has_integers = true}, r, 1)) {
        ASSERT_EQ(it, std::trunc(it));
        ASSERT_LT(std::fabs(it), 0x1p18F);
        others += it != 0;
      }
    EXPECT_GT(others, 500U);
  }
}

TEST(GradientSource, has_ranks_that_are_all_zero) {
  std::size_t empty = 0;
  for (rank r = 0; r < 64; ++r) {
    const std::vector<float> values = drawn({.kind = gradient_kind::zeros, .count = 6400, .ranks = 64}, r, 1);
    const auto others = values.size() - static_cast<std::size_t>(std::count(values.begin(), values.end(), 0.0F));
    empty += others == 0;
    EXPECT_TRUE(others == 0 || (others > 50 && others < 150)) << others;
  }
  EXPECT_GT(empty, 5U);
  EXPECT_LT(empty, 30U);
}

}  // namespace
}  // namespace lsched
