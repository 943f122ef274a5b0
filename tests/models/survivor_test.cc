// Tests the worlds of survivor_worlds.cc and roll_worlds.cc. Ranks that survive a death form a new world (roll call),
// and move a schedule into the new world (carry). One rank dies, and the death can precede any of its accesses. All
// survivors must be in one world, and each commit must succeed on all survivors or on none.
#include <gtest/gtest.h>

#include "tests/models/expect.h"

namespace models {
namespace {

TEST(survivor_model, survivors_of_a_roll_are_in_one_world) { expect_right("last rank dies in roll"); }
TEST(survivor_model, survivors_agree_whether_a_commit_stands) { expect_right("last rank dies in a commit"); }
TEST(survivor_model_soak, the_first_rank_dies_in_a_roll) { expect_right("first rank dies in roll"); }
TEST(survivor_model_soak, the_first_rank_dies_in_one_of_two_commits) { expect_right("first rank dies in two commits"); }
TEST(survivor_model_soak, the_last_rank_dies_in_one_of_two_commits) { expect_right("last rank dies in two commits"); }

// Members perform roll calls by messages (roll_worlds.cc).
TEST(survivor_model, members_that_exchange_messages_are_in_one_world) {
  for (const char* scenario : {"4 call", "3 call, 1 gives up", "3 call, 1 dies", "3 call, 2 die"})
    expect_right(scenario);
}
TEST(survivor_model_soak, a_member_dies_or_gives_up_between_messages) {
  for (const char* scenario : {"3 call, 1 dies, 1 gives up", "4 call, 1 dies"}) expect_right(scenario);
}

TEST(survivor_model, only_one_side_of_a_cut_goes_on) {
  for (const char* scenario :
       {"2 call, cut behind 1", "3 call, cut behind 1", "3 call, cut behind 2", "3 call, cut behind 1, 1 dies"})
    expect_right(scenario);
}

TEST(survivor_model_bug, every_changed_line_is_caught) {
  expect_caught({{"last_list_on_record", "last rank dies in roll"},
                 {"commit_settled_without_a_look", "last rank dies in a commit"},
                 {"gives_up_what_stands", "last rank dies in a commit"},
                 {"settled_before_all_accept", "3 call, 1 dies"},
                 {"refusal_after_acceptance", "3 call, 1 dies, 1 gives up"},
                 {"gives_up_what_it_accepted", "3 call, 1 gives up"},
                 {"successor_is_not_asked", "3 call, 1 dies"},
                 {"list_without_all_answers", "4 call"},
                 {"smaller_side_goes_on", "3 call, cut behind 1"},
                 {"equal_sides_go_on", "2 call, cut behind 1"}});
}

}  // namespace
}  // namespace models
