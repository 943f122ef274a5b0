// Tests of the baselines TopkA and Gaussiank with all ranks in lockstep, against plain references.
#include <gtest/gtest.h>

#include "collectives/sparse/steps/topka_steps.h"
#include "collectives/baselines/gaussiank.h"
#include "tests/collectives/sparse/baseline_cases.h"

namespace lsched {
namespace {

struct ranks_of_lists {
  std::deque<rank_memory> memories;  ///< buffers, by rank; a deque, because rank_memory cannot be moved
  std::vector<elements> residuals;   ///< residuals of the reference, by rank
};

template <class Baseline>
ranks_of_lists memories_for(const baseline_case& what, const std::vector<Baseline>& ranks) {
  ranks_of_lists made;
  for (const Baseline& it : ranks) made.memories.emplace_back(what, it.list_room(), it.result_room());
  made.residuals.assign(ranks.size(), elements(what.problem.count, 0));
  return made;
}

template <class Baseline>
std::vector<Baseline> made_for(const baseline_case& what) {
  std::vector<Baseline> ranks;
  for (rank r = 0; r < what.problem.place.size; ++r) ranks.emplace_back(problem_of(what, r));
  return ranks;
}

/// Adds the lists of all ranks and updates the residuals. Compares every rank's result with the reference, bit by bit.
template <class Baseline>
void add_and_settle(const baseline_case& what, std::vector<Baseline>& ranks, ranks_of_lists& world,
                    const std::vector<list>& lists) {
  const dtype type = what.problem.type;
  std::vector<item_list> views;
  for (const rank_memory& it : world.memories) views.push_back(it.sent_list());
  const list sum = sum_in_order(type, lists);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    rank_memory& mine = world.memories[r];
    mine.n_result = ranks[r].add(views, mine.result.data());
    ASSERT_EQ(mine.result.content(mine.n_result), sum) << "rank " << r;
    ranks[r].settle(mine.sent_list(), mine.result_list(), mine.residual.data(), mine.update.data());
    settle(what, sum, world.residuals[r], lists[r], [](std::uint32_t) { return true; });
    ASSERT_EQ(mine.residual.content(), world.residuals[r]) << "rank " << r;
    ASSERT_EQ(mine.update.content(), update_of(what, sum)) << "rank " << r;
    ASSERT_TRUE(mine.is_intact()) << "rank " << r;
  }
}

void run_topka(const baseline_case& what) {
  auto ranks = made_for<topka>(what);
  ranks_of_lists world = memories_for(what, ranks);
  for (round_no round = 1; round <= k_baseline_rounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    std::vector<list> lists;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      const elements gradient = gradient_of(what, static_cast<rank>(r), round);
      accumulate(what, world.residuals[r], gradient);
      lists.push_back(largest_of(what.problem.type, sendable(what, world.residuals[r]), what.problem.k));
      const dense_in_memory given(what.problem.type, gradient);
      rank_memory& mine = world.memories[r];
      mine.n_sent = ranks[r].select(mine.residual.data(), given.data(), mine.hint, mine.sent.data());
      ASSERT_EQ(mine.sent.content(mine.n_sent), lists[r]) << "rank " << r;
    }
    add_and_settle(what, ranks, world, lists);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(BaselineTopkA, adds_the_largest_of_all_ranks_in_rank_order) { for_each_baseline_case(run_topka); }

TEST(BaselineTopkA, does_without_update_and_without_gradient) {
  topka one({.count = 3, .k = 1});
  const dense_in_memory residual(dtype::f32, {bits_of(dtype::f32, 1), bits_of(dtype::f32, -3), 0});
  const list_in_memory sent(dtype::f32, std::size_t{1}), result(dtype::f32, std::size_t{1});
  top_k_hint hint;
  ASSERT_EQ(one.select(residual.data(), nullptr, hint, sent.data()), 1U);
  const item_list mine{sent.data(), 1};
  ASSERT_EQ(one.add({&mine, 1}, result.data()), 1U);
  one.settle(mine, {result.data(), 1}, residual.data(), nullptr);
  EXPECT_EQ(result.content(1), (list{{1, bits_of(dtype::f32, -3)}}));
  EXPECT_EQ(residual.content(), (elements{bits_of(dtype::f32, 1), 0, 0}));
}

// ---- Gaussiank

/// Computes the first threshold of Gaussiank plainly: the mean and the variance in two passes, and the normal quantile
/// by bisection.
double first_threshold(const baseline_case& what, const elements& residual) {
  const dtype wide = residual_of(what.problem.type);
  std::vector<long double> finite;
  for (const std::uint64_t it : residual)
    if (std::isfinite(value_of(wide, it))) finite.push_back(static_cast<long double>(value_of(wide, it)));
  long double mean = 0, square = 0;
  for (const long double it : finite) mean += it / static_cast<long double>(finite.size());
  for (const long double it : finite) square += (it - mean) * (it - mean);
  const auto n = static_cast<long double>(finite.size());
  const auto deviation = static_cast<double>(n > 1 ? std::sqrt(square / (n - 1)) : 0);
  const double k = static_cast<double>(std::min(what.problem.k, what.problem.count));
  const double above = k / 2 / static_cast<double>(what.problem.count);
  double low = 0, high = 40;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(middle / std::sqrt(2.0)) / 2 > above ? low : high) = middle;
  }
  return static_cast<double>(mean) + deviation * low;
}

list above(const baseline_case& what, const elements& residual, double threshold) {
  const dtype wide = residual_of(what.problem.type);
  const double limit = value_of(wide, bits_of(wide, threshold));
  list all = sendable(what, residual);
  std::erase_if(all, [&](const entry& it) {
    const double value = value_of(wide, residual[it.index]);
    return !std::isnan(value) && !(std::fabs(value) > limit);
  });
  return all;
}

/// Returns whether the threshold selects the same elements however it is rounded. Two kinds of cases are excluded:
/// extreme f64 values, whose squares overflow or underflow, and cases with k at least the count. If k is at least the
/// count, the threshold is the mean, and elements may equal the mean.
bool has_clear_threshold(const baseline_case& what) {
  const bool is_extreme = what.input == k_baseline_inputs - 4 || what.input == k_baseline_inputs - 1;
  return what.problem.k < what.problem.count && (what.problem.type != dtype::f64 || !is_extreme);
}

double largest_finite(const elements& of, dtype type) {
  double largest = 0;
  for (const std::uint64_t it : of)
    if (std::isfinite(value_of(type, it))) largest = std::max(largest, std::fabs(value_of(type, it)));
  return largest;
}

void expect_threshold(const baseline_case& what, const elements& residual, const gaussian_list& made) {
  const std::uint64_t k = std::min(what.problem.k, what.problem.count);
  double threshold = first_threshold(what, residual);
  std::size_t count = above(what, residual, threshold).size();
  EXPECT_EQ(made.predicted, count);
  const double rounding = largest_finite(residual, residual_of(what.problem.type)) * 1e-7;
  EXPECT_NEAR(made.first_threshold, threshold, rounding);
  const bool is_few = count < 3 * k / 4;
  unsigned steps = 0;
  for (; steps < 20 && (is_few ? count < 3 * k / 4 : count > 5 * k / 4); ++steps) {
    threshold = is_few ? threshold / 1.02 : threshold * 1.02;
    count = above(what, residual, threshold).size();
  }
  EXPECT_EQ(made.adjustments, steps);
  EXPECT_NEAR(made.threshold, threshold, rounding);
}

/// Returns the list that the reference selects with the threshold of the implementation. This threshold differs from
/// the threshold of the reference only by rounding.
list gaussian_list_of(const baseline_case& what, const elements& residual, const gaussian_list& made) {
  const std::uint64_t k = std::min(what.problem.k, what.problem.count);
  if (k == 0) return {};
  if (has_clear_threshold(what)) expect_threshold(what, residual, made);
  const list found = above(what, residual, made.threshold);
  return found.size() > 2 * k ? largest_of(what.problem.type, sendable(what, residual), 2 * k) : found;
}

void run_gaussiank(const baseline_case& what) {
  auto ranks = made_for<gaussiank>(what);
  ranks_of_lists world = memories_for(what, ranks);
  for (round_no round = 1; round <= k_baseline_rounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    std::vector<list> lists;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      const elements gradient = gradient_of(what, static_cast<rank>(r), round);
      accumulate(what, world.residuals[r], gradient);
      const dense_in_memory given(what.problem.type, gradient);
      rank_memory& mine = world.memories[r];
      const gaussian_list made = ranks[r].select(mine.residual.data(), given.data(), mine.sent.data());
      mine.n_sent = made.count;
      lists.push_back(gaussian_list_of(what, world.residuals[r], made));
      ASSERT_EQ(mine.sent.content(mine.n_sent), lists[r]) << "rank " << r;
    }
    add_and_settle(what, ranks, world, lists);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(BaselineGaussianK, adds_what_is_above_a_guessed_threshold) { for_each_baseline_case(run_gaussiank); }

TEST(BaselineGaussianK, finds_about_k_of_what_is_normal) {
  constexpr std::size_t count = 100000, k = 1000;
  std::mt19937_64 draw(1);
  elements values(count);
  for (std::uint64_t& it : values) it = bits_of(dtype::f32, drawn_normal(draw));
  std::vector<std::byte> residual(count * 4), gradient(count * 4), items(2 * k * 8);
  for (std::size_t i = 0; i < count; ++i) write_element(gradient.data(), i, dtype::f32, values[i]);
  gaussiank one({.count = count, .k = k});
  const gaussian_list found = one.select(residual.data(), gradient.data(), items.data());
  EXPECT_NEAR(static_cast<double>(found.predicted), k, 150);
  EXPECT_EQ(found.count, found.predicted);
  EXPECT_EQ(found.adjustments, 0U);
}

TEST(BaselineGaussianK, has_quantiles_of_the_normal_distribution) {
  for (const double p : {1e-12, 1e-6, 0.001, 0.0242, 0.0243, 0.3, 0.5, 0.7, 0.9757, 0.9758, 0.999}) {
    const double x = normal_quantile(p);
    EXPECT_NEAR(std::erfc(-x / std::sqrt(2.0)) / 2, p, p * 1e-7) << p;
  }
  EXPECT_NEAR(normal_quantile(0.995), 2.5758293035489, 1e-8);
}

}  // namespace
}  // namespace lsched
