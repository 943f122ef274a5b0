// Tests of TopkA with all ranks in lockstep, against a plain reference.
#include <gtest/gtest.h>

#include "collectives/sparse/steps/topka_steps.h"
#include "tests/collectives/sparse/baseline_cases.h"

namespace lsched {
namespace {

struct ranks_of_lists {
  std::deque<rank_memory> memories;  ///< buffers of each rank; a deque, because rank_memory cannot be moved
  std::vector<elements> residuals;   ///< residual of each rank in the reference
};

ranks_of_lists memories_for(const baseline_case& what, const std::vector<topka>& ranks) {
  ranks_of_lists made;
  for (const topka& it : ranks) made.memories.emplace_back(what, it.list_room(), it.result_room());
  made.residuals.assign(ranks.size(), elements(what.problem.count, 0));
  return made;
}

std::vector<topka> made_for(const baseline_case& what) {
  std::vector<topka> ranks;
  for (rank r = 0; r < what.problem.place.size; ++r) ranks.emplace_back(problem_of(what, r));
  return ranks;
}

/// Adds the lists of all ranks and updates the residuals. Compares every rank's result with the reference, bit by bit.
void add_and_settle(const baseline_case& what, std::vector<topka>& ranks, ranks_of_lists& world,
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
  auto ranks = made_for(what);
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

}  // namespace
}  // namespace lsched
