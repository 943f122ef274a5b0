// Tests of the boundaries of regions, against the quantiles of the sorted positions of all ranks.
#include "collectives/sparse/steps/regions.h"

#include <gtest/gtest.h>

#include "libsched/schedule/geometry.h"
#include "tests/collectives/sparse/positions.h"

namespace lsched {
namespace {

numbers boundaries_of(const sparse_problem& of, const std::vector<list>& by_rank) {
  numbers sums(position_bins(of)), own(position_bins(of), 77);
  for (const list& all : by_rank) {
    const list_in_memory memory(of.type, all);
    count_positions(of, {memory.data(), all.size()}, own);
    for (std::size_t i = 0; i < own.size(); ++i) sums[i] += own[i];
  }
  numbers boundaries(static_cast<std::size_t>(of.place.size) + 1, 77);
  place_boundaries(of, sums, boundaries);
  return boundaries;
}

TEST(position_bins, are_some_for_each_region_and_none_beyond_the_vector) {
  EXPECT_EQ(position_bins(problem_of(1, 0)), 0u);
  EXPECT_EQ(position_bins(problem_of(3, 1)), 1u);
  EXPECT_EQ(position_bins(problem_of(3, 768)), 768u);
  EXPECT_EQ(position_bins(problem_of(3, 769)), 385u) << "bins of two elements, except the last";
  EXPECT_EQ(position_bins(problem_of(64, 1 << 20)), 16384u);
  EXPECT_EQ(position_bins(problem_of(65, 1 << 20)), 16384u);
  EXPECT_EQ(position_bins(problem_of(256, 1 << 20)), 16384u);
  EXPECT_EQ(position_bins(problem_of(4096, std::uint64_t{1} << 32)), 16384u);
  EXPECT_EQ(position_bins(problem_of(7, 1000, boundary_rule::averaged)), 7u);
}

/// A boundary is a quantile of the sorted positions of all ranks. If a bin of positions is several elements wide, the
/// boundary may be anywhere in the bin.
TEST(pooled_boundaries, are_quantiles_of_all_ranks_positions_together) {
  std::mt19937_64 draw(1);
  for (const rank size : {1, 2, 3, 5, 6, 7, 4, 8, 12})
    for (const std::uint64_t count : {1u, 2u, 7u, 64u, 1000u, 5000u})
      for (int shape = 0; shape < 5; ++shape) {
        const sparse_problem of = problem_of(size, count);
        std::vector<list> by_rank;
        std::vector<std::uint64_t> all;
        for (rank r = 0; r < size; ++r) {
          by_rank.push_back(positions(shape == 4 ? r % 4 : shape, count, draw));
          for (const entry& it : by_rank.back()) all.push_back(it.index);
        }
        std::sort(all.begin(), all.end());
        const numbers boundaries = boundaries_of(of, by_rank);
        EXPECT_TRUE(std::is_sorted(boundaries.begin(), boundaries.end()));
        EXPECT_EQ(boundaries.front(), 0u);
        EXPECT_EQ(boundaries.back(), count);
        if (all.empty()) continue;
        const std::uint64_t bins = position_bins(of), width = (count + bins - 1) / bins;
        const cut parts(all.size(), static_cast<std::uint64_t>(size));
        for (std::size_t i = 1; i + 1 < boundaries.size(); ++i) {
          const std::uint64_t quantile = all[std::min<std::uint64_t>(parts.begin(i), all.size() - 1)];
          EXPECT_EQ(boundaries[i] / width, quantile / width) << size << " ranks, " << count << ", shape " << shape;
          if (width == 1) {
            EXPECT_EQ(boundaries[i], quantile);
          }
        }
      }
}

TEST(pooled_boundaries, cut_bins_in_proportion) {
  const sparse_problem of = problem_of(2, 5120);  // a bin is ten elements wide
  numbers bins(512), boundaries(3);
  bins[0] = 4;
  bins[100] = 10;
  bins[511] = 2;
  place_boundaries(of, bins, boundaries);
  EXPECT_EQ(boundaries, (numbers{0, 1004, 5120}));
}

TEST(pooled_boundaries, are_equal_regions_where_nobody_has_anything) {
  EXPECT_EQ(boundaries_of(problem_of(3, 1000), {{}, {}, {}}), (numbers{0, 334, 667, 1000}));
  EXPECT_EQ(boundaries_of(problem_of(3, 0), {{}, {}, {}}), (numbers{0, 0, 0, 0}));
  EXPECT_EQ(boundaries_of(problem_of(3, 1000, boundary_rule::averaged), {{}, {}, {}}), (numbers{0, 334, 667, 1000}));
}

TEST(pooled_boundaries, cut_the_largest_vector_too) {
  const sparse_problem of = problem_of(1 << 12, std::uint64_t{1} << 32);
  const std::uint64_t width = 1 << 14;
  numbers bins(position_bins(of), width << 12), boundaries((1 << 12) + 1);  // all ranks have selected all elements
  place_boundaries(of, bins, boundaries);
  for (std::size_t i = 0; i < boundaries.size(); ++i) ASSERT_EQ(boundaries[i], i << 20);
}

TEST(averaged_boundaries, are_means_over_the_ranks_that_have_quantiles) {
  const auto at = [](const std::vector<std::uint32_t>& positions) {
    list all;
    for (const std::uint32_t it : positions) all.push_back({it, bits_of(dtype::f32, 1)});
    return all;
  };
  const sparse_problem of = problem_of(3, 1000, boundary_rule::averaged);
  EXPECT_EQ(boundaries_of(of, {at({1, 2, 10, 20, 100, 200}), {}, at({5, 30, 301})}), (numbers{0, 20, 200, 1000}));
  EXPECT_EQ(boundaries_of(of, {at({7}), {}, {}}), (numbers{0, 7, 7, 1000}));
}

}  // namespace
}  // namespace lsched
