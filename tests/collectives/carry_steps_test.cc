// Tests of recovery (docs/reference/shrink.md). After a death, the survivors move a partial schedule into a smaller
// world. A second rank dies between any two steps of this recovery.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>

#include "libsched/schedule/draw.h"
#include "tests/support/carry_trials.h"
#include "tests/support/sampling.h"

namespace lsched {
namespace {

/// Counts the outcomes of many recoveries. The first run of a seed has no second death. In each further run, a second
/// rank dies `i` steps after the first death. If the recovery of the first run took at most `points` steps, the further
/// runs try every `i` below the number of these steps. Otherwise there are `points` further runs, each with a random
/// `i`.
struct explored {
  std::uint64_t runs = 0, faults = 0, adopted = 0, repeated = 0;
  std::string first_fault;

  std::uint64_t add(const testing::carry_trial& what) {
    const testing::carry_outcome found = testing::run_carry_trial(what);
    ++runs;
    adopted += found.adopted;
    repeated += found.is_repeated ? 1 : 0;
    if (!found.fault.empty() && faults++ == 0) first_fault = found.fault;
    return found.recovery;
  }
  void explore(std::uint64_t seed, std::uint64_t points, bool drops_adopted_results = false) {
    const std::uint64_t steps = std::max<std::uint64_t>(add({.seed = seed}), 1);
    for (std::uint64_t i = 0; i < std::min(points, steps); ++i)
      (void)add({.seed = seed,
                 .second_death = points < steps ? mix(seed * 1000 + i) % steps : i,
                 .drops_adopted_results = drops_adopted_results});
  }
};

void explore_second_deaths(std::uint64_t seeds, std::uint64_t points) {
  explored all;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) all.explore(seed, points);
  EXPECT_EQ(all.first_fault, "") << all.faults << " of " << all.runs;
  EXPECT_GT(all.adopted, all.runs / 10) << "too few ranks were a round behind";
  std::printf("%llu runs, %llu adopted results, %llu runs in which a dead rank had ended a round with another result\n",
              static_cast<unsigned long long>(all.runs), static_cast<unsigned long long>(all.adopted),
              static_cast<unsigned long long>(all.repeated));
}

TEST(carry_steps, nothing_is_lost_if_a_second_rank_dies_between_any_two) {
  explore_second_deaths(testing::sampled() ? 20 : 100, 4);
}
TEST(carry_steps_soak, nothing_is_lost_if_a_second_rank_dies_between_any_two) {
  explore_second_deaths(100, UINT64_MAX);
}
TEST(carry_steps_bug, a_result_that_is_not_taken_over_is_caught) {
  explored all;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) all.explore(seed, 4, true);
  EXPECT_GT(all.faults, 3u);
}
TEST(carry_steps_bug, a_trial_sees_instances_that_do_not_continue) {
  explored all;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) (void)all.add({.seed = seed, .forgets_predecessors = true});
  EXPECT_GT(all.faults, 0u);
}

}  // namespace
}  // namespace lsched
