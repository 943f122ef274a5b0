#include "libsched/skew.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

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
  for (const skew_kind kind : {skew_kind::uniform, skew_kind::lognormal}) {
    const start_skew skew{.kind = kind};
    EXPECT_EQ(start_times(skew, 8)(5), start_times(skew, 1000)(5));
    EXPECT_NE(start_times(skew, 8, 1)(5), start_times(skew, 8, 2)(5));
    EXPECT_NE(start_times(skew, 8)(5), start_times(skew, 8)(6));
    start_skew other = skew;
    other.seed = 2;
    EXPECT_NE(start_times(skew, 8)(5), start_times(other, 8)(5));
  }
}

TEST(skew, draws_have_the_moments_they_should) {
  const auto lognormal = sorted({{.kind = skew_kind::lognormal, .scale = k_ms, .sigma = 0.5}, k_many}, k_many);
  EXPECT_NEAR(static_cast<double>(lognormal[k_many / 2]), 1.0 * k_ms, 0.02 * k_ms);
  EXPECT_NEAR(mean(lognormal), std::exp(0.125) * k_ms, 0.03 * k_ms);
  const auto uniform = sorted({{.kind = skew_kind::uniform, .scale = k_ms, .shift = k_ms}, k_many}, k_many);
  EXPECT_NEAR(mean(uniform), 1.5 * k_ms, 0.02 * k_ms);
  EXPECT_GE(uniform.front(), k_ms);
  EXPECT_LE(uniform.back(), 2 * k_ms);
  EXPECT_EQ(sorted({{.kind = skew_kind::lognormal, .scale = k_ms, .most = k_ms}, k_many}, k_many).back(), k_ms);
}

TEST(skew, so_many_ranks_straggle_as_were_asked_for) {
  for (const rank size : {1, 2, 3, 7, 64})
    for (const rank count : {0, 1, 2, 5, 64})
      for (round_no instance = 1; instance < 10; ++instance) {
        const start_times starts({.kind = skew_kind::stragglers, .scale = k_ms, .count = count}, size, instance);
        const auto times = sorted(starts, size);
        EXPECT_EQ(std::count(times.begin(), times.end(), k_ms), std::min(count, size));
      }
}

TEST(skew, linear_and_empirical_are_what_they_say) {
  const start_times linear({.kind = skew_kind::linear, .scale = 3}, 8);
  EXPECT_EQ(linear(0), 0);
  EXPECT_EQ(linear(7), 21);
  const start_times drawn({.kind = skew_kind::empirical, .samples = {5, 9}}, 100);
  EXPECT_EQ(sorted(drawn, 100).front(), 5);
  EXPECT_EQ(sorted(drawn, 100).back(), 9);
}

TEST(noise, periodic_takes_its_share_and_no_cpu_works_while_it_is_away) {
  const cpu_noise noise{.kind = noise_kind::periodic, .scale = 25, .period = 1000};
  EXPECT_NEAR(static_cast<double>(noise_of(noise, 3, 1, 0, 0, 975'000)), 25'000, 50);
  double lost = 0;
  for (picoseconds begin = 0; begin < 1000; ++begin) {
    const picoseconds here = noise_of(noise, 3, 1, 0, begin, 1);
    EXPECT_LE(here, 25);
    lost += static_cast<double>(here);
  }
  EXPECT_NEAR(lost, 25 * 26 / 2, 26);  // who comes while it is away waits for the rest
}

TEST(noise, random_kinds_have_their_means) {
  for (const noise_kind kind : {noise_kind::exponential, noise_kind::pareto}) {
    const cpu_noise noise{.kind = kind, .scale = 1'000'000, .alpha = 3};
    double sum = 0;
    for (std::uint64_t op = 0; op < k_many; ++op) sum += static_cast<double>(noise_of(noise, 1, 1, op, 0, 1));
    EXPECT_NEAR(sum / k_many, kind == noise_kind::pareto ? 0.5e6 : 1e6, 0.05e6);
  }
  EXPECT_EQ(noise_of({}, 1, 1, 1, 0, 1), 0);
  EXPECT_EQ(jitter_of({}, 1, 1, 1), 0);
  EXPECT_GE(jitter_of({.jitter = 1000}, 1, 1, 1), 0);
}

}  // namespace
}  // namespace lsched
