// Tests of the arrival times of calls relative to the start of the round. The tests check the median of one histogram,
// and the common median of two histograms: the calls before the start, and the calls after the start.
#include "microbench/partial/partial_arrivals.h"

#include <gtest/gtest.h>

#include <optional>

namespace lsched::bench {
namespace {

constexpr double k_ms = 1e-6;  // milliseconds per nanosecond

lsched_histogram of_bin(std::size_t bin, std::uint64_t values, std::uint64_t max) {
  lsched_histogram made{};
  made.bins[bin] = values;
  made.max = max;
  return made;
}

lsched_partial_stats stats_with(lsched_histogram early, std::uint64_t in_time, lsched_histogram late,
                                std::uint64_t lates, std::uint64_t uncalled) {
  lsched_partial_stats it{};
  it.early_ns = early;
  it.late_ns = late;
  it.in_time = in_time;
  it.late = lates;
  it.uncalled = uncalled;
  it.rounds = in_time + lates + uncalled;
  return it;
}

std::optional<double> number(const result& value) {
  return value.is_null() ? std::nullopt : std::optional(value.get<double>());
}

std::optional<double> median_of(const lsched_partial_stats& stats) {
  return number(arrivals_of(stats).at("lateness_ms_median"));
}

TEST(arrivals, lateness_is_the_middle_of_early_and_late_calls) {
  const auto early = of_bin(4, 3, 15), late = of_bin(8, 3, 200);
  const auto median = [&](std::uint64_t uncalled) { return median_of(stats_with(early, 3, late, 3, uncalled)); };
  ASSERT_TRUE(median(0));
  EXPECT_GE(*median(0), -15 * k_ms);  // the third of the six calls is the last call before the start
  EXPECT_LE(*median(0), -8 * k_ms);
  EXPECT_GE(*median(1), 128 * k_ms);
  EXPECT_LE(*median(1), 200 * k_ms);
  EXPECT_GT(*median(4), *median(1)) << "rounds without a call count as the latest";
  ASSERT_TRUE(median(6));
  EXPECT_LE(*median(6), 200 * k_ms) << "at most the latest call";
  EXPECT_EQ(median(7), std::nullopt) << "the middle round has no call";
}

TEST(arrivals, earlier_calls_come_first) {
  lsched_histogram early = of_bin(4, 1, 1000);
  early.bins[10] = 2;
  const auto median = [&](std::uint64_t late) {
    return median_of(stats_with(early, 3, of_bin(4, late, 15), late, 0)).value();
  };
  EXPECT_LE(median(1), -512 * k_ms);
  EXPECT_GE(median(1), -1000 * k_ms);
  EXPECT_LE(median(2), -8 * k_ms) << "the third of five";
  EXPECT_GE(median(2), -16 * k_ms);
}

TEST(arrivals, calls_whose_time_is_gone_are_the_earliest_or_the_latest) {
  const auto some = of_bin(3, 2, 7);
  EXPECT_EQ(median_of(stats_with(some, 10, {}, 0, 0)), std::nullopt);
  EXPECT_EQ(median_of(stats_with(some, 4, {}, 0, 0)), std::nullopt);
  EXPECT_EQ(median_of(stats_with({}, 0, some, 10, 0)), std::nullopt);
  EXPECT_TRUE(median_of(stats_with(some, 3, {}, 0, 0)));
  EXPECT_TRUE(median_of(stats_with({}, 0, some, 3, 0)));
}

TEST(arrivals, the_mean_is_of_the_known_times) {
  lsched_histogram early = of_bin(4, 2, 15), late = of_bin(8, 1, 200);
  early.sum = 20;
  late.sum = 200;
  lsched_partial_stats stats = stats_with(early, 5, late, 1, 2);
  stats.completion_ns.sum = 80;
  const result seen = arrivals_of(stats);
  ASSERT_TRUE(number(seen.at("lateness_ms")));
  EXPECT_DOUBLE_EQ(*number(seen.at("lateness_ms")), 60 * k_ms);
  EXPECT_DOUBLE_EQ(seen.at("completion_ms"), 10 * k_ms);
}

TEST(arrivals, without_rounds_there_is_no_middle) {
  EXPECT_EQ(arrivals_of({}).at("lateness_ms"), nullptr);
  EXPECT_EQ(arrivals_of({}).at("lateness_ms_median"), nullptr);
  EXPECT_EQ(arrivals_of({}).at("completion_ms"), 0);
}

}  // namespace
}  // namespace lsched::bench
