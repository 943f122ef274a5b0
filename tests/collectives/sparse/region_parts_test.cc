// Tests of regions whose boundaries move with the items from round to round. Regions are divided into parts, in which
// items are counted. The new regions must have nearly equal shares of the items.
#include "collectives/sparse/steps/regions.h"

#include <gtest/gtest.h>

#include "tests/collectives/sparse/positions.h"

namespace lsched {
namespace {

/// Returns the number of items in each part, summed over all ranks.
numbers counted(const sparse_problem& of, const region_parts& parts, const std::vector<list>& by_rank) {
  numbers sums(drift_bins(of)), own(drift_bins(of), 77);
  for (const list& all : by_rank) {
    const list_in_memory memory(of.type, all);
    parts.count({memory.data(), all.size()}, own);
    for (std::size_t i = 0; i < own.size(); ++i) sums[i] += own[i];
  }
  return sums;
}

/// Returns the boundaries of the next round, computed from the items of all ranks in the parts of the present regions.
numbers followed(const sparse_problem& of, const std::vector<list>& by_rank, numbers boundaries) {
  region_parts parts(of);
  parts.divide(boundaries);
  parts.move(counted(of, parts, by_rank), boundaries);
  return boundaries;
}

/// Returns the maximum number of items in a region, summed over all ranks.
std::uint64_t most_in_a_region(const std::vector<list>& by_rank, const numbers& boundaries) {
  numbers counts(boundaries.size() - 1);
  for (const list& all : by_rank)
    for (const entry& it : all) {
      const auto after = std::upper_bound(boundaries.begin(), boundaries.end() - 1, it.index);
      ++counts[static_cast<std::size_t>(after - boundaries.begin()) - 1];
    }
  return *std::max_element(counts.begin(), counts.end());
}

TEST(region_parts, boundaries_move_to_equal_shares_from_wherever_they_are) {
  std::mt19937_64 draw(3);
  for (const rank size : {2, 3, 5, 6, 7, 4, 8, 33}) {
    const sparse_problem of = problem_of(size, 20000);
    std::vector<list> by_rank;
    std::uint64_t all = 0;
    for (rank r = 0; r < size; ++r) by_rank.push_back(positions(r % 2, of.count, draw)), all += by_rank.back().size();
    numbers now(static_cast<std::size_t>(size) + 1, 0);  // at first, the last rank owns all elements
    now.back() = of.count;
    for (int round = 0; round < 6; ++round) {
      now = followed(of, by_rank, now);
      EXPECT_TRUE(std::is_sorted(now.begin(), now.end()));
      EXPECT_EQ(now.front(), 0u);
      EXPECT_EQ(now.back(), of.count);
    }
    const std::uint64_t share = all / static_cast<std::uint64_t>(size);
    EXPECT_LE(most_in_a_region(by_rank, now), share + share / 8 + 2 * static_cast<std::uint64_t>(size)) << size;
  }
}

/// The items are dense only in the first hundredth of the last region. If all parts of the region had the same width,
/// nearly all parts would be empty.
TEST(region_parts, an_end_of_what_is_dense_is_found_at_once) {
  const sparse_problem of = problem_of(4, 1 << 20);
  const auto dense_from = [&](std::uint32_t begin) {
    list all;
    for (std::uint32_t i = 0; i < 8000; ++i) all.push_back({begin + i * 2, bits_of(dtype::f32, 1)});
    return all;
  };
  // The regions have these boundaries if the dense range is from 500000 to 516000.
  const numbers now{0, 504000, 508000, 512000, 1 << 20};
  for (const std::uint32_t begin : {500000u, 500600u, 499400u, 501000u}) {
    const std::vector<list> by_rank(4, dense_from(begin));
    EXPECT_LE(most_in_a_region(by_rank, followed(of, by_rank, now)), 8000u + 1600u) << begin;
  }
}

/// A narrow region has one part for each element. Wide regions get the parts that narrow regions do not need. Four
/// parts in each region would be too few to find the ends of the dense range.
TEST(region_parts, narrow_regions_leave_theirs_to_wide_ones) {
  constexpr rank k_ranks = 2000;
  const sparse_problem of = problem_of(k_ranks, 1 << 20);
  const auto dense_from = [](std::uint32_t begin) {
    list all;
    for (std::uint32_t i = 0; i < 2 * k_ranks; ++i) all.push_back({begin + i, bits_of(dtype::f32, 1)});
    return all;
  };
  numbers now;
  for (std::uint64_t i = 0; i < k_ranks; ++i) now.push_back(i == 0 ? 0 : 500'000 + 2 * i);
  now.push_back(of.count);
  EXPECT_EQ(most_in_a_region({dense_from(500'000)}, now), 2u);
  for (const std::uint32_t begin : {500'000u, 500'001u, 500'020u, 499'900u, 503'000u}) {
    const std::vector<list> by_rank{dense_from(begin)};
    EXPECT_LE(most_in_a_region(by_rank, followed(of, by_rank, now)), 10u) << begin;
  }
}

/// Every element has an item, so the count of a part is the part's width.
TEST(region_parts, are_those_of_all_regions_in_their_order) {
  const sparse_problem of = problem_of(3, 5000);
  const numbers boundaries{0, 3, 3, 5000};
  list all;
  for (std::uint32_t i = 0; i < of.count; ++i) all.push_back({i, bits_of(dtype::f32, 1)});
  region_parts parts(of);
  parts.divide(boundaries);
  const numbers counts = counted(of, parts, {all});
  ASSERT_EQ(counts.size(), 48u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(counts[i], 1u);
  std::uint64_t rest = 0;
  for (std::size_t i = 3; i < counts.size(); ++i) {
    EXPECT_GT(counts[i], 0u) << i;
    rest += counts[i];
  }
  EXPECT_EQ(rest, 4997u);
  for (std::size_t i = 4; i < 12; ++i)
    EXPECT_GE(counts[i], counts[i - 1]) << "parts must be shorter towards the ends: " << i;
  for (std::size_t i = 0; i < 8; ++i) EXPECT_LE(counts[47 - i], counts[46 - i] + 1) << i;
}

/// 120 elements are divided into 32 parts. The outermost parts are about one element wide, and their width must not be
/// rounded to 0.
TEST(region_parts, are_never_empty) {
  const sparse_problem of = problem_of(2, 120);
  list all;
  for (std::uint32_t i = 0; i < of.count; ++i) all.push_back({i, bits_of(dtype::f32, 1)});
  region_parts parts(of);
  parts.divide(numbers{0, 0, 120});
  for (const std::uint64_t it : counted(of, parts, {all})) EXPECT_GT(it, 0u);
}

TEST(region_parts, boundaries_stay_where_there_is_nothing_to_go_by) {
  const sparse_problem of = problem_of(3, 1000), averaged = problem_of(3, 1000, boundary_rule::averaged);
  const numbers now{0, 10, 900, 1000};
  EXPECT_EQ(followed(of, {{}, {}, {}}, now), now);
  std::mt19937_64 draw(4);
  const list some = positions(0, 1000, draw);
  EXPECT_EQ(followed(averaged, {some, some, {}}, now), now);
  EXPECT_NE(followed(of, {some, some, {}}, now), now);
  EXPECT_EQ(followed(problem_of(3, 0), {{}, {}, {}}, {0, 0, 0, 0}), (numbers{0, 0, 0, 0}));
}

/// Tries empty vectors, more regions than elements, and a region of 2^32 elements.
TEST(region_parts, are_of_any_size) {
  std::mt19937_64 draw(5);
  for (const rank size : {1, 3, 5, 7, 600, 9000})
    for (const std::uint64_t count : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{6}, std::uint64_t{1} << 32}) {
      const sparse_problem of = problem_of(size, count);
      std::vector<list> by_rank(2);
      for (std::uint64_t i = 0; i < std::min<std::uint64_t>(count, 300); ++i)
        by_rank[i % 2].push_back({static_cast<std::uint32_t>(count > 300 ? draw() : i), bits_of(dtype::f32, 1)});
      for (list& all : by_rank) std::ranges::sort(all, {}, &entry::index);
      numbers now(static_cast<std::size_t>(size) + 1, 0);
      now.back() = count;
      for (int round = 0; round < 4; ++round) {
        now = followed(of, by_rank, now);
        ASSERT_TRUE(std::is_sorted(now.begin(), now.end())) << size << " ranks, " << count;
        ASSERT_EQ(now.front(), 0u);
        ASSERT_EQ(now.back(), count);
      }
      if (count < 300) {
        EXPECT_LE(most_in_a_region(by_rank, now), (count + static_cast<std::uint64_t>(size) - 1) / std::uint64_t(size));
      }
    }
}

// Boundaries must ascend for any counts. This includes counts in parts that this rank does not have. Such counts would
// occur if ranks had different boundaries.
TEST(region_parts, boundaries_ascend_whatever_the_sums_are) {
  const sparse_problem of = problem_of(5, 20);
  const numbers now{0, 1, 1, 2, 3, 20};
  std::mt19937_64 draw(6);
  for (int attempt = 0; attempt < 1000; ++attempt) {
    numbers boundaries = now, sums(drift_bins(of));
    for (std::uint64_t& it : sums) it = draw() % 4 == 0 ? draw() % 100 : 0;
    region_parts parts(of);
    parts.divide(now);
    parts.move(sums, boundaries);
    ASSERT_TRUE(std::is_sorted(boundaries.begin(), boundaries.end()));
    ASSERT_EQ(boundaries.back(), 20u);
  }
}

TEST(drift_bins, are_16_for_each_region_as_long_as_these_are_few) {
  EXPECT_EQ(drift_bins(problem_of(3, 1000, boundary_rule::averaged)), 0u);
  EXPECT_EQ(drift_bins(problem_of(3, 1000)), 48u);
  EXPECT_EQ(drift_bins(problem_of(512, 1000)), 8192u);
  EXPECT_EQ(drift_bins(problem_of(513, 1000)), 8192u);
  EXPECT_EQ(drift_bins(problem_of(9000, 1000)), 9000u);
}

}  // namespace
}  // namespace lsched
