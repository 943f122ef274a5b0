// Tests of the rendezvous by which the ranks of a new world find each other.
#include "offload/open/rendezvous.h"

#include <gtest/gtest.h>

#include "tests/support/rendezvous_trials.h"

namespace lsched::testing {
namespace {

constexpr std::array<rank, 7> k_sizes{3, 5, 6, 7, 1, 4, 8};

/// Returns the number of trials with a wrong answer. The trials cover all sizes above one and all kinds of trouble.
int count_findings(wrong_rank planted, std::uint64_t seeds) {
  int found = 0;
  for (const rank size : k_sizes)
    for (std::size_t what = 0; what < k_troubles && size > 1; ++what)
      for (std::uint64_t seed = 1; seed <= seeds; ++seed)
        found += perform({size, seed, static_cast<trouble>(what), planted}).empty() ? 0 : 1;
  return found;
}

TEST(rendezvous, all_ranks_get_the_same_answer) {
  for (const rank size : k_sizes)
    for (std::size_t what = 0; what < k_troubles; ++what)
      for (std::uint64_t seed = 1; seed <= 8; ++seed) EXPECT_EQ(perform({size, seed, static_cast<trouble>(what)}), "");
}

TEST(rendezvous, a_trial_sees_a_rank_that_judges_alone) { EXPECT_GT(count_findings(wrong_rank::judges_alone, 1), 0); }

TEST(rendezvous, a_trial_sees_a_rank_that_ignores_the_outcome) {
  EXPECT_GT(count_findings(wrong_rank::ignores_outcome, 1), 0);
}

TEST(rendezvous, a_trial_sees_a_rank_that_leaves_early) { EXPECT_GT(count_findings(wrong_rank::leaves_early, 3), 0); }

TEST(rendezvous, processes_of_one_host_and_user_can_share_memory) {
  const residence here = find_residence();
  EXPECT_EQ(find_separation(here, find_residence()), std::nullopt);
  residence other = here;
  ++other.user;
  EXPECT_EQ(find_separation(here, other), "are processes of different users");
}

}  // namespace
}  // namespace lsched::testing
