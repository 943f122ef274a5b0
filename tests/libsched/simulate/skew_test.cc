#include "libsched/simulate/skew.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace lsched {
namespace {

constexpr picoseconds k_ms = 1'000'000'000;
constexpr rank k_many = 20'000;

std::vector<picoseconds> sorted(const start_times& starts, rank size) {
  std::vector<picoseconds> times;
  for (rank r = 0; r < size; ++r) times.push_back(starts(r));
  std::sort(times.begin(), times.end());
  return times;
}

double mean(const std::vector<picoseconds>& times) {
  double sum = 0;
  for (const picoseconds time : times) sum += static_cast<double>(time);
  return sum / static_cast<double>(times.size());
}

TEST(skew, a_rank_can_be_recomputed_by_itself) {
  const start_skew skew{.kind = skew_kind::lognormal};
  EXPECT_EQ(start_times(skew, 8)(5), start_times(skew, 1000)(5));
  EXPECT_NE(start_times(skew, 8, 1)(5), start_times(skew, 8, 2)(5));
  EXPECT_NE(start_times(skew, 8)(5), start_times(skew, 8)(6));
  start_skew other = skew;
  other.seed = 2;
  EXPECT_NE(start_times(skew, 8)(5), start_times(other, 8)(5));
}

TEST(skew, lognormal_draws_have_the_moments_they_should) {
  const auto times = sorted({{.kind = skew_kind::lognormal, .scale = k_ms, .sigma = 0.5}, k_many}, k_many);
  EXPECT_NEAR(static_cast<double>(times[k_many / 2]), 1.0 * k_ms, 0.02 * k_ms);
  EXPECT_NEAR(mean(times), std::exp(0.125) * k_ms, 0.03 * k_ms);
  const auto limited = sorted({{.kind = skew_kind::lognormal, .shift = k_ms, .most = 2 * k_ms}, k_many}, k_many);
  EXPECT_GE(limited.front(), k_ms);
  EXPECT_EQ(limited.back(), 2 * k_ms);
}

TEST(skew, one_rank_straggles_and_every_rank_does_so_at_times) {
  for (const rank size : {1, 2, 3, 7, 64}) {
    std::set<rank> late;
    for (round_no instance = 1; instance < 1000; ++instance) {
      const start_times starts({.kind = skew_kind::straggler, .scale = k_ms}, size, instance);
      const auto times = sorted(starts, size);
      EXPECT_EQ(std::count(times.begin(), times.end(), k_ms), 1);
      for (rank r = 0; r < size; ++r)
        if (starts(r) == k_ms) late.insert(r);
    }
    EXPECT_EQ(late.size(), static_cast<std::size_t>(size));
  }
}

TEST(skew, linear_ranks_keep_their_places_and_rotating_ranks_move_on) {
  for (round_no instance = 1; instance <= 9; ++instance) {
    const start_times linear({.kind = skew_kind::linear, .scale = 3}, 8, instance);
    const start_times rotating({.kind = skew_kind::rotating, .scale = 3, .shift = 100}, 8, instance);
    for (rank r = 0; r < 8; ++r) {
      EXPECT_EQ(linear(r), 3 * r);
      EXPECT_EQ(rotating(r), 100 + 3 * ((r + static_cast<rank>(instance) - 1) % 8));
    }
  }
}

TEST(noise, has_its_mean_and_is_drawn_anew_for_each_charge) {
  const cpu_noise noise{.mean = 1'000'000};
  double sum = 0;
  for (std::uint64_t op = 0; op < k_many; ++op) sum += static_cast<double>(noise_of(noise, 1, 1, op));
  EXPECT_NEAR(sum / k_many, 1e6, 0.05e6);
  EXPECT_NE(noise_of(noise, 1, 1, 1), noise_of(noise, 1, 1, 2));
  EXPECT_NE(noise_of(noise, 1, 1, 1), noise_of(noise, 1, 2, 1));
  EXPECT_NE(noise_of(noise, 1, 1, 1), noise_of(noise, 2, 1, 1));
  EXPECT_EQ(noise_of({}, 1, 1, 1), 0);
}

}  // namespace
}  // namespace lsched
