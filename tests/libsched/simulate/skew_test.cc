#include "bindings/simulation/skew.h"

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

TEST(skew, fixed_ranks_stay_and_rotating_ones_move_on) {
  for (round_no instance = 1; instance <= 9; ++instance) {
    const start_times fixed({.kind = skew_kind::fixed, .scale = k_ms, .ranks = {0, 5}}, 8, instance);
    const start_times rotating({.kind = skew_kind::rotating, .scale = 3, .shift = 100}, 8, instance);
    for (rank r = 0; r < 8; ++r) {
      EXPECT_EQ(fixed(r), r == 0 || r == 5 ? k_ms : 0);
      EXPECT_EQ(rotating(r), 100 + 3 * ((r + static_cast<rank>(instance) - 1) % 8));
    }
  }
}

// --- noise -------------------------------------------------------------------------------------------------

/// Returns the time for which noise interrupts the CPU. Walks through the trace picosecond by picosecond.
picoseconds walked(const noise_trace& trace, picoseconds begin, picoseconds cost) {
  picoseconds away = 0, done = 0;
  for (picoseconds now = begin; done < cost; ++now) {
    const bool is_away = std::ranges::any_of(trace.gaps, [&](const noise_trace::gap& it) {
      return now % trace.period >= it.begin && now % trace.period < it.begin + it.length;
    });
    is_away ? ++away : ++done;
  }
  return away;
}

TEST(noise_trace, takes_exactly_the_gaps_that_the_work_meets) {
  const std::vector<std::vector<noise_trace::gap>> lists{
      {{5, 3}}, {{0, 2}, {4, 1}, {5, 2}, {11, 7}}, {{3, 0}, {6, 10}}, {{0, 1}, {2, 1}}};
  for (const auto& gaps : lists) {
    const auto trace = noise_trace::from(gaps);
    ASSERT_TRUE(trace) << trace.error().text;
    for (picoseconds begin = 0; begin < 3 * trace->period; ++begin)
      for (picoseconds cost = 1; cost < 3 * trace->work + 2; ++cost)
        EXPECT_EQ(trace->away(begin, cost), walked(*trace, begin, cost)) << begin << " " << cost;
  }
}

TEST(noise_trace, ranks_have_phases_of_their_own_unless_they_are_coscheduled) {
  cpu_noise noise{.kind = noise_kind::trace, .trace = *noise_trace::from({{900'000, 100'000}})};
  for (const bool together : {false, true}) {
    noise.is_cosched = together;
    double lost = 0;
    for (rank r = 0; r < k_many; ++r) lost += static_cast<double>(noise_of(noise, r, 1, 0, 0, 45'000));
    // A rank that begins in the gap waits for half of the gap on average. A rank that begins up to 45 ns before the gap
    // waits for the whole gap.
    const double wanted =
        together ? static_cast<double>(noise_of(noise, 0, 1, 0, 0, 45'000)) : 0.1 * 50'000 + 0.045 * 100'000;
    EXPECT_NEAR(lost / k_many, wanted, together ? 1e-6 : 500);
  }
}

TEST(noise_trace, reads_the_lines_of_a_file_and_names_the_bad_one) {
  const auto trace = parse_noise_trace("# netgauge\n1000\t20\n2000.5\t30\n\n");
  ASSERT_TRUE(trace) << trace.error().text;
  ASSERT_EQ(trace->gaps.size(), 2u);
  EXPECT_EQ(trace->gaps[1].begin, 2'000'500);
  EXPECT_EQ(trace->period, 2'030'500);
  EXPECT_EQ(trace->work, 1'980'500);
  for (const char* bad : {"1000\n", "5\t6\tx\n", "-1\t5\n", "1\tnan\n", "1e300\t1\n"})
    EXPECT_EQ(parse_noise_trace(bad).error().text, "line 1: expected \"start duration\" in ns") << bad;
  for (const char* bad : {"", "0\t5\n", "10\t5\n12\t5\n"}) EXPECT_FALSE(parse_noise_trace(bad)) << bad;
}

TEST(pace, is_normal_around_one_and_the_same_in_every_instance) {
  const cpu_noise noise{.pace = {.cv = 0.1}};
  double sum = 0, squares = 0;
  for (rank r = 0; r < k_many; ++r) {
    const double pace = pace_of(noise, r);
    sum += pace, squares += (pace - 1) * (pace - 1);
    EXPECT_GE(pace, 0.5);
    EXPECT_LE(pace, 1.5);
    EXPECT_EQ(delay_of(noise, r, 1, 7, 0, 1'000'000), delay_of(noise, r, 2, 9, 55, 1'000'000));
    EXPECT_NEAR(static_cast<double>(drag_of(noise, r, 1'000'000)), 1e6 * (pace - 1), 1);
  }
  EXPECT_NEAR(sum / k_many, 1, 0.003);
  EXPECT_NEAR(std::sqrt(squares / k_many), 0.1, 0.002);
  EXPECT_EQ(pace_of({}, 3), 1);
}

TEST(pace, so_many_ranks_are_slow_as_were_asked_for) {
  const cpu_noise noise{.pace = {.slow_share = 0.01, .slow_factor = 3}};
  int slow = 0;
  for (rank r = 0; r < k_many; ++r) {
    EXPECT_TRUE(pace_of(noise, r) == 1 || pace_of(noise, r) == 3);
    slow += pace_of(noise, r) == 3;
  }
  EXPECT_NEAR(slow, 200, 50);
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
  EXPECT_NEAR(lost, 25 * 26 / 2, 26);  // work that begins in a gap waits for the rest of the gap
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
