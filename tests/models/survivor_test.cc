// Tests the worlds of survivor_worlds.cc: ranks that survive a death form a new world (roll call), and move a schedule
// into the new world (carry). One rank dies, and the death can precede any of its accesses. All survivors must be in
// one world, and each commit must succeed on all survivors or on none.
#include <gtest/gtest.h>

#include "tests/models/expect.h"

namespace models {
namespace {

TEST(survivor_model, survivors_of_a_roll_are_in_one_world) { expect_right("last rank dies in roll"); }
TEST(survivor_model, survivors_agree_whether_a_commit_stands) { expect_right("last rank dies in a commit"); }
TEST(survivor_model_soak, the_first_rank_dies_in_a_roll) { expect_right("first rank dies in roll"); }
TEST(survivor_model_soak, the_first_rank_dies_in_one_of_two_commits) { expect_right("first rank dies in two commits"); }
TEST(survivor_model_soak, the_last_rank_dies_in_one_of_two_commits) { expect_right("last rank dies in two commits"); }

TEST(survivor_model_bug, every_changed_line_is_caught) {
  expect_caught({{"last_list_on_record", "last rank dies in roll"},
                 {"commit_settled_without_a_look", "last rank dies in a commit"},
                 {"gives_up_what_stands", "last rank dies in a commit"}});
}

}  // namespace
}  // namespace models
