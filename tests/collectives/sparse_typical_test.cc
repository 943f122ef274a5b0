// Tests of the typical lengths of the lists of sparse allreduces. Time models use these lengths as the lengths of
// messages.
#include <gtest/gtest.h>

#include <bit>
#include <set>

#include "libsched/simulate/simulation.h"
#include "collectives/sparse/sparse_allreduce.h"
#include "collectives/sparse/steps/regions.h"
#include "collectives/sparse/steps/threshold.h"
#include "libsched/schedule/geometry.h"

namespace lsched::testing {
namespace {

constexpr std::uint64_t k_item_bytes = 8;

sparse_problem asked(rank size, std::uint64_t count, std::uint64_t k) {
  return {.count = count, .k = k, .place = {0, size}, .period = 64};
}

/// Returns the mean number of bytes that a rank sends in a round that does not compute new boundaries of regions.
double bytes_of(std::string_view algorithm, sparse_problem problem) {
  const rank size = problem.place.size;
  std::vector<schedule_ptr> ranks;
  for (rank r = 0; r < size; ++r) {
    problem.place.self = r;
    ranks.push_back(*find_sparse(algorithm)->generate(problem));
  }
  const auto report = simulate_schedules(ranks, {.instance = 2});
  EXPECT_TRUE(report) << report.error().text;
  return report ? static_cast<double>(report->bytes) / size : 0;
}

TEST(SparseTypical, a_union_of_independent_lists) {
  EXPECT_EQ(typical_union(asked(1, 1000, 10)), 10u);
  EXPECT_EQ(typical_union(asked(2, 1000, 100)), 190u);
  EXPECT_EQ(typical_union(asked(3, 1000, 500)), 875u);
  EXPECT_EQ(typical_union(asked(1000, 1000, 500)), 1000u);
  EXPECT_EQ(typical_union(asked(5, 0, 10)), 0u);
  EXPECT_EQ(typical_union(asked(5, 10, 20)), 10u);
}

TEST(SparseTypical, shares_are_of_something) {
  EXPECT_EQ(typical_share(asked(3, 9, 1), 0), 0u);
  EXPECT_EQ(typical_share(asked(3, 9, 1), 1), 1u);
  EXPECT_EQ(typical_share(asked(3, 9, 1), 3), 1u);
  EXPECT_EQ(typical_share(asked(3, 9, 1), 4), 2u);
}

/// Returns an upper bound of the bytes of counters that a rank of oktopk sends. The search for thresholds has several
/// passes. In each pass, an allreduce combines counters. This allreduce has one more step if the number of ranks is not
/// a power of two. A rank also sends the number of items of every owner.
double counter_bytes(const sparse_problem& problem) {
  std::uint64_t counters = drift_bins(problem);
  for (unsigned pass = 0; pass < threshold_passes(problem.type); ++pass) counters += threshold_bins(problem.type, pass);
  return 8.0 * static_cast<double>(counters) * (ceil_log2(problem.place.size) + 1) + 16.0 * problem.place.size;
}

// Ranks also send counters and lengths of lists, so the bytes may exceed the bytes of items.
TEST(SparseTypical, every_rank_sends_its_share_of_what_there_is) {
  constexpr std::uint64_t k_count = 1'000'000, k = 10'000;
  for (const rank size : {2, 3, 5, 6, 7, 4, 8, 33, 64}) {
    const sparse_problem problem = asked(size, k_count, k);
    const double others = size - 1, share = others / size;
    const auto items = [&](double number) { return number * k_item_bytes; };
    const auto expect = [&](std::string_view algorithm, double bytes, double counters) {
      const double sent = bytes_of(algorithm, problem);
      EXPECT_GE(sent, bytes * 0.999) << algorithm << " " << size;
      EXPECT_LE(sent, bytes * 1.02 + counters) << algorithm << " " << size;
    };
    expect("topka", items(k * others), 1'000);
    EXPECT_EQ(bytes_of("sparseloco", problem), (244 * (4 + 11 + 62) + (4 + 2 + 9)) * others) << "41 of 4096, 6 of 576";
    expect("oktopk", items(2 * k * share), counter_bytes(problem));
    const double all = std::min(items(static_cast<double>(typical_union(problem))), 4.0 * k_count);
    expect("topkdsa", items(k * share) + all * share, 1'000);
    expect("gtopk_published", items(2 * k * share), 0);
  }
}

TEST(SparseTypical, few_items_are_not_nothing) {
  const sparse_problem problem = asked(33, 1000, 10);
  for (const std::string_view algorithm : {"oktopk", "topkdsa", "topka", "gtopk"})
    EXPECT_GE(bytes_of(algorithm, problem), 10.0 * k_item_bytes) << algorithm;
}

/// A round takes log2 P steps up the tree and log2 P steps down. A parent sends first to the child with the largest
/// subtree.
TEST(SparseTypical, a_tree_is_as_slow_as_it_is_deep) {
  constexpr std::uint64_t k = 10'000;
  for (const rank size : {2, 4, 8, 64}) {
    sparse_problem problem = asked(size, 1'000'000, k);
    std::vector<schedule_ptr> ranks;
    for (rank r = 0; r < size; ++r) {
      problem.place.self = r;
      ranks.push_back(*find_sparse("gtopk_published")->generate(problem));
    }
    simulation bytes_only;
    bytes_only.where.S = k * k_item_bytes;
    bytes_only.where.levels[0].cost = {.L = 1, .o = 0, .g = 0, .G = 1'000'000, .O = 0};
    const auto report = simulate_schedules(ranks, bytes_only);
    ASSERT_TRUE(report) << report.error().text;
    const double steps = static_cast<double>(report->last()) / (k * k_item_bytes * 1000.0);
    EXPECT_NEAR(steps, 2.0 * std::countr_zero(static_cast<unsigned>(size)), 0.01) << size;
  }
}

/// To find thresholds, a rank counts magnitudes in two lists: its selected items, and the sum of its region. The
/// typical lengths must include the lengths of both lists.
TEST(SparseTypical, owners_count_in_lists_as_long_as_they_are) {
  constexpr std::uint64_t k = 10'000;
  const sparse_problem problem = asked(8, 100'000, k);
  const schedule_ptr made = *find_sparse("oktopk")->generate(problem);
  std::set<std::uint64_t> read;
  for (const op& it : made->ops())
    if (it.what == kernel::derive && made->buffers()[it.a.buffer()].has_lists()) read.insert(typical_bytes(*made, it));
  const std::uint64_t sum = typical_share(problem, typical_union(problem));
  EXPECT_EQ(read, (std::set{k * k_item_bytes, sum * k_item_bytes}));
}

/// Typical regions are equal and need no balancing. Therefore the typical length of the messages that balance the
/// regions is 0.
TEST(SparseTypical, owners_have_equal_shares) {
  for (const rank size : {3, 8}) {
    std::uint64_t number = 0;
    sparse_problem problem = asked(size, 100'000, 10'000);
    const schedule_ptr made = *find_sparse("oktopk")->generate(problem);
    for (const op& it : made->ops()) {
      const guard* const when = made->guard_of(it);
      if (it.kind != op_kind::send || when == nullptr || !when->skips_empty) continue;
      ++number;
      EXPECT_EQ(typical_bytes(*made, it), 0u);
      EXPECT_GT(most_bytes(*made, it), 0u);
    }
    EXPECT_EQ(number, static_cast<std::uint64_t>(size) - 1);
  }
}

}  // namespace
}  // namespace lsched::testing
