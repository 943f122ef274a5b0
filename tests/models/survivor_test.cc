// Tests the worlds of survivor_worlds.cc: ranks that survive a death form a new world (roll call), and move a schedule
// into the new world (carry). One rank dies, before any of its accesses. All survivors must be in one world, and each
// commit must succeed on all survivors or on none.
#include <gtest/gtest.h>

#include "tests/models/worlds.h"

namespace models {
namespace {

void expect_right(std::string_view scenario) {
  const report found = run(scenario);
  EXPECT_EQ(found.fault, "") << scenario << ": " << to_text(found);
  EXPECT_GT(found.ends, 0u);
  ::testing::Test::RecordProperty(std::string(scenario), to_text(found));
}

TEST(survivor_model, survivors_of_a_roll_are_in_one_world) { expect_right("last rank dies in roll"); }
TEST(survivor_model, survivors_agree_whether_a_commit_stands) { expect_right("last rank dies in a commit"); }
TEST(survivor_model_soak, the_first_rank_dies_in_a_roll) { expect_right("first rank dies in roll"); }
TEST(survivor_model_soak, the_first_rank_dies_in_one_of_two_commits) { expect_right("first rank dies in two commits"); }
TEST(survivor_model_soak, the_last_rank_dies_in_one_of_two_commits) { expect_right("last rank dies in two commits"); }

struct planted {
  std::string_view bug;
  std::string_view scenario;
};

TEST(survivor_model_bug, every_changed_line_is_caught) {
  for (const auto& [bug, scenario] : {planted{"last_list_on_record", "last rank dies in roll"},
                                      planted{"commit_settled_without_a_look", "last rank dies in a commit"},
                                      planted{"gives_up_what_stands", "last rank dies in a commit"}}) {
    const report found = run(scenario, {.bug = bug});
    EXPECT_NE(found.path, "") << bug << " is not caught: " << to_text(found);
  }
}

}  // namespace
}  // namespace models
