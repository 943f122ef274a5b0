#include "libsched/analysis/rank_sets.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <set>
#include <vector>

namespace lsched {
namespace {

TEST(rank_sets, equal_sets_have_equal_numbers) {
  rank_sets all;
  const auto low = all.united(all.single(1), all.single(2));
  EXPECT_EQ(low, all.united(all.single(2), all.single(1)));
  EXPECT_EQ(all.united(low, all.single(2)), low);
  EXPECT_EQ(all.united(low, rank_sets::k_empty), low);
  EXPECT_NE(low, all.united(all.single(1), all.single(3)));
}

TEST(rank_sets, knows_the_first_that_is_missing) {
  rank_sets all;
  EXPECT_EQ(all.first_missing(rank_sets::k_empty), 0);
  EXPECT_EQ(all.first_missing(all.single(1)), 0);
  EXPECT_EQ(all.first_missing(all.single(0)), 1);
  EXPECT_EQ(all.first_missing(all.united(all.single(0), all.single(2))), 1);
  EXPECT_EQ(all.first_missing(all.united(all.single(0), all.single(1))), 2);
}

TEST(rank_sets, agrees_with_sets_of_numbers) {
  constexpr rank k_ranks = 12;
  std::mt19937 random(7);
  rank_sets all;
  std::vector<std::pair<rank_sets::id, std::set<rank>>> known{{rank_sets::k_empty, {}}};
  for (rank r = 0; r < k_ranks; ++r) known.push_back({all.single(r), {r}});
  for (int step = 0; step < 2000; ++step) {
    std::array<rank_sets::id, 3> chosen{};
    std::array<int, k_ranks> times{};
    for (rank_sets::id& it : chosen) {
      const auto& [id, members] = known[random() % known.size()];
      it = id;
      for (const rank r : members) ++times[static_cast<std::size_t>(r)];
    }
    const std::size_t least = 1 + random() % 3;
    std::set<rank> expected;
    for (rank r = 0; r < k_ranks; ++r)
      if (times[static_cast<std::size_t>(r)] >= static_cast<int>(least)) expected.insert(r);
    const rank_sets::id made = all.in_at_least(least, chosen);
    for (rank r = 0; r < k_ranks; ++r) ASSERT_EQ(all.contains(made, r), expected.contains(r)) << step;
    known.emplace_back(made, expected);
  }
}

}  // namespace
}  // namespace lsched
