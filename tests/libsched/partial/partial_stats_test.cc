// Tests of the statistics of partial rounds, with a clock that the test controls. Some tests check the recorded times
// of calls while two threads race.
#include "libsched/partial/partial_stats.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <thread>

#include "tests/support/sampling.h"

namespace lsched {
namespace {

constexpr round_no k_kept = call_times::k_kept;

std::uint64_t values_in(const histogram& it) { return std::reduce(it.bins.begin(), it.bins.end()); }

TEST(histogram, a_bin_holds_the_values_of_as_many_digits) {
  histogram it;
  for (const std::uint64_t value : {0u, 1u, 2u, 3u, 4u, 7u, 8u}) it.add(value);
  EXPECT_EQ(it.bins[0], 1u);
  EXPECT_EQ(it.bins[1], 1u);
  EXPECT_EQ(it.bins[2], 2u);
  EXPECT_EQ(it.bins[3], 2u);
  EXPECT_EQ(it.bins[4], 1u);
  EXPECT_EQ(it.sum, 25u);
  EXPECT_EQ(it.max, 8u);
}

TEST(histogram, the_last_bin_takes_whatever_is_larger) {
  histogram it;
  it.add((std::uint64_t{1} << 38) - 1);
  it.add(std::uint64_t{1} << 38);
  it.add(std::uint64_t{1} << 62);
  EXPECT_EQ(it.bins[38], 1u);
  EXPECT_EQ(it.bins[39], 2u);
}

// --- times of calls --------------------------------------------------------------------------------------------------

TEST(call_times, are_known_until_so_many_came_later) {
  call_times it;
  EXPECT_EQ(it.last(), 0u);
  for (round_no round = 1; round <= k_kept + 2; ++round) it.note(round, 10 * round);
  EXPECT_EQ(it.last(), k_kept + 2);
  EXPECT_EQ(it.of(k_kept + 2), 10 * (k_kept + 2));
  EXPECT_EQ(it.of(4), 40u);
  EXPECT_EQ(it.of(3), std::nullopt) << "a later round takes this place";
  EXPECT_EQ(it.of(1), std::nullopt);
}

TEST(call_times, one_call_stands_for_those_left_out_and_never_for_earlier_ones) {
  call_times it;
  it.note(1, 10);
  it.note(4, 40);
  EXPECT_EQ(it.of(1), 10u);
  for (const round_no round : {2u, 3u, 4u}) EXPECT_EQ(it.of(round), 40u);
  it.note(2, 50);
  EXPECT_EQ(it.last(), 4u);
  EXPECT_EQ(it.of(2), 40u);
}

TEST(call_times, have_a_median_of_the_time_between_two_once_there_are_enough) {
  call_times it;
  std::uint64_t now_ns = 1000;
  for (round_no round = 1; round <= 8; ++round) {
    it.note(round, now_ns += round == 4 ? 1'000'000 : 10 * round);
    EXPECT_EQ(it.median_between(), std::nullopt);
  }
  it.note(9, now_ns += 90);
  EXPECT_EQ(it.median_between(), 70u) << "median of 20 30 50 60 70 80 90, and a long time";
  it.note(40, now_ns += 90);
  EXPECT_EQ(it.median_between(), 70u) << "another 90: missing rounds do not count";
  for (round_no round = 41; round <= 2 * k_kept; ++round) it.note(round, now_ns += round <= 2 * k_kept - 40 ? 7 : 5);
  EXPECT_EQ(it.median_between(), 5u) << "40 of the last 64 times";
}

// A call that skips many rounds overwrites all recorded times. Meanwhile another thread reads the times.
TEST(call_times, have_a_median_while_a_call_replaces_all_of_them) {
  const int calls = testing::sampled() ? 20'000 : 200'000;
  call_times it;
  std::atomic<bool> is_over{false};
  std::thread application([&] {
    round_no round = 0;
    std::uint64_t now_ns = 1000;
    for (int i = 0; i < calls; ++i) it.note(round += i % 16 == 0 ? 2 * k_kept : 1, now_ns += 10);
    is_over.store(true);
  });
  while (!is_over.load()) {
    const auto median = it.median_between();
    if (median && *median != 10) ADD_FAILURE() << *median;
  }
  application.join();
}

TEST(call_times, are_those_of_their_round_while_more_are_noted) {
  const round_no rounds = testing::sampled() ? 200'000 : 2'000'000;
  call_times it;
  std::thread application([&] {
    for (round_no round = 1; round <= rounds; ++round) it.note(round, 7 * round);
  });
  std::uint64_t known = 0;
  for (round_no last = 0; last < rounds;) {
    last = it.last();
    for (const round_no age : {round_no{0}, k_kept / 2, k_kept - 3}) {
      if (last <= age) continue;
      const auto time_ns = it.of(last - age);
      if (time_ns) ++known;
      if (time_ns && *time_ns != 7 * (last - age)) ADD_FAILURE() << last - age << " was not at " << *time_ns;
    }
  }
  application.join();
  EXPECT_GT(known, 0u);
}

// --- rounds ----------------------------------------------------------------------------------------------------------

/// The statistics of one rank over consecutive rounds.
struct stats_bench {
  explicit stats_bench(std::uint64_t of_ranks) : ranks(of_ranks) {}

  void round(std::uint64_t gate_ns, std::uint64_t end_ns, std::uint64_t contributors = 1, std::uint64_t mine = 0,
             round_no staleness = 0) {
    it.enter(++last, gate_ns);
    it.finish({.from = last - 1,
               .to = last,
               .contributors = contributors,
               .offers = contributors,
               .ranks = ranks,
               .mine = mine,
               .staleness = staleness,
               .null = contributors == 0},
              end_ns);
  }

  partial_stats it;
  std::uint64_t ranks;
  round_no last = 0;
};

TEST(partial_stats, calls_are_in_time_or_late_or_have_not_come) {
  stats_bench bench(4);
  bench.it.calls.note(1, 100);
  bench.round(104, 110);  // gate at 104, call at 100: 4 ns early
  bench.round(120, 130);  // gate at 120, call at 132: 12 ns late
  bench.it.calls.note(2, 132);
  bench.round(140, 150);  // gate at 140, call at 200: 60 ns late
  bench.round(160, 170);  // gate at 160, call at 201: 41 ns late
  bench.it.calls.note(3, 200);
  bench.it.calls.note(4, 201);
  bench.it.calls.note(5, 202);
  bench.round(202, 230);  // gate at 202, call at 202: 0 ns early
  bench.round(240, 250);  // has no call
  const partial_figures& seen = bench.it.figures();
  EXPECT_EQ(seen.rounds, 6u);
  EXPECT_EQ(seen.in_time, 2u);
  EXPECT_EQ(seen.late, 3u);
  EXPECT_EQ(seen.uncalled(), 1u);
  EXPECT_EQ(seen.early_ns.sum, 4u);
  EXPECT_EQ(seen.early_ns.bins[0], 1u);
  EXPECT_EQ(seen.early_ns.bins[3], 1u);
  EXPECT_EQ(seen.late_ns.sum, 12u + 60 + 41);
  EXPECT_EQ(seen.late_ns.max, 60u);
  EXPECT_EQ(seen.late_ns.bins[4], 1u);
  EXPECT_EQ(seen.late_ns.bins[6], 2u);
  EXPECT_EQ(seen.completion_ns.sum, 6u + 10 + 10 + 10 + 28 + 10);
  EXPECT_EQ(seen.completion_ns.max, 28u);
  EXPECT_EQ(values_in(seen.completion_ns), 6u);
}

TEST(partial_stats, a_call_that_comes_while_its_round_is_under_way_is_late) {
  stats_bench bench(2);
  bench.it.enter(1, 100);
  bench.it.calls.note(1, 105);
  EXPECT_EQ(bench.it.figures().late, 0u) << "the round is not over";
  bench.it.finish({.from = 0, .to = 1, .contributors = 1}, 110);
  EXPECT_EQ(bench.it.figures().in_time, 0u);
  EXPECT_EQ(bench.it.figures().late, 1u);
  EXPECT_EQ(bench.it.figures().late_ns.sum, 5u);
}

TEST(partial_stats, a_call_for_a_later_round_waits_for_it) {
  stats_bench bench(2);
  bench.it.calls.note(3, 10);
  EXPECT_EQ(bench.it.figures().rounds, 0u);
  for (const std::uint64_t gate : {20u, 40u, 80u}) bench.round(gate, gate + 1);
  EXPECT_EQ(bench.it.figures().in_time, 3u);
  EXPECT_EQ(bench.it.figures().early_ns.sum, 10u + 30 + 70);
}

TEST(partial_stats, of_calls_far_from_their_gates_only_the_number_is_known) {
  stats_bench behind(2);
  for (round_no round = 1; round <= 3 * k_kept; ++round) behind.round(10 * round, 10 * round + 1);
  for (round_no round = 1; round <= 3 * k_kept; ++round) {
    behind.it.calls.note(round, 100 * k_kept + 10 * round);
    (void)behind.it.figures();
  }
  EXPECT_EQ(behind.it.figures().late, 3 * k_kept);
  EXPECT_EQ(values_in(behind.it.figures().late_ns), k_kept);
  EXPECT_EQ(behind.it.figures().late_ns.sum, k_kept * 100 * k_kept);

  stats_bench ahead(2);
  for (round_no round = 1; round <= 3 * k_kept; ++round) ahead.it.calls.note(round, round);
  for (round_no round = 1; round <= 3 * k_kept; ++round) ahead.round(5 * k_kept + round, 10 * k_kept);
  EXPECT_EQ(ahead.it.figures().in_time, 3 * k_kept);
  EXPECT_EQ(values_in(ahead.it.figures().early_ns), k_kept - 1);
  EXPECT_EQ(ahead.it.figures().early_ns.sum, (k_kept - 1) * 5 * k_kept);
}

TEST(partial_stats, contributors_by_number_and_staleness_of_what_was_sent) {
  stats_bench bench(5);
  bench.round(1, 2, 3, 2, 4);
  bench.round(3, 4, 0);
  bench.round(5, 6, 5, 1, 0);
  bench.round(7, 8, 3);
  const partial_figures& seen = bench.it.figures();
  EXPECT_EQ(seen.contributors_sum, 11u);
  EXPECT_EQ(seen.contributors_min, 0u);
  EXPECT_EQ(seen.contributors_max, 5u);
  EXPECT_EQ(seen.contributors[0], 1u);
  EXPECT_EQ(seen.contributors[3], 2u);
  EXPECT_EQ(seen.contributors[5], 1u);
  EXPECT_EQ(values_in(seen.staleness), 2u) << "rounds without a contribution have no staleness";
  EXPECT_EQ(seen.staleness.bins[0], 1u);
  EXPECT_EQ(seen.staleness.bins[3], 1u);
  EXPECT_EQ(seen.staleness.max, 4u);
}

TEST(partial_stats, the_fewest_contributors_are_not_nobody_before_the_first_round) {
  stats_bench bench(5);
  for (const std::uint64_t contributors : {4u, 3u, 5u}) bench.round(1, 2, contributors);
  EXPECT_EQ(bench.it.figures().contributors_min, 3u);
}

TEST(partial_stats, many_ranks_share_bins) {
  const auto bin_of = [](rank ranks, std::uint64_t contributors) {
    stats_bench bench(static_cast<std::uint64_t>(ranks));
    bench.round(1, 2, contributors);
    const auto& bins = bench.it.figures().contributors;
    return std::ranges::find(bins, 1u) - bins.begin();
  };
  EXPECT_EQ(bin_of(63, 63), 63);
  EXPECT_EQ(bin_of(64, 0), 0);
  EXPECT_EQ(bin_of(64, 63), 63);
  EXPECT_EQ(bin_of(64, 64), 64);
  EXPECT_EQ(bin_of(65, 0), 0);
  EXPECT_EQ(bin_of(65, 1), 1);
  EXPECT_EQ(bin_of(65, 65), 64);
  EXPECT_EQ(bin_of(1000, 1), 1);
  EXPECT_EQ(bin_of(1000, 500), 32);
  EXPECT_EQ(bin_of(1000, 1000), 64);
}

TEST(partial_stats, null_messages_save_their_bytes) {
  partial_stats it;
  it.sent(100, false);
  it.sent(30, true);
  it.sent(0, false);
  EXPECT_EQ(it.figures().messages_sent, 3u);
  EXPECT_EQ(it.figures().nulls_sent, 1u);
  EXPECT_EQ(it.figures().bytes_sent, 100u);
  EXPECT_EQ(it.figures().bytes_saved, 30u);
}

}  // namespace
}  // namespace lsched
