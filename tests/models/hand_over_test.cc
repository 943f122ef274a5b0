// Tests the worlds of hand_over_worlds.cc and claim_worlds.cc: buffers of a partial instance that threads hand over,
// and memory of an instance that is given up, in every order of the threads' accesses.
#include <gtest/gtest.h>

#include "tests/models/worlds.h"

namespace models {
namespace {

TEST(hand_over_model, nothing_is_lost_and_nothing_counted_twice) {
  for (const std::string_view scenario : {"offer", "withdraw", "leave", "latest", "accumulate", "history",
                                          "lend latest", "lend history", "calls", "sender gives up", "two give up"}) {
    const report found = run(scenario);
    EXPECT_EQ(found.fault, "") << scenario << ": " << to_text(found);
    EXPECT_GT(found.ends, 0u);
    RecordProperty(std::string(scenario), to_text(found));
  }
}

struct planted {
  std::string_view bug;
  std::string_view scenario;
};

TEST(hand_over_model_bug, every_changed_line_is_caught) {
  for (const auto& [bug, scenario] :
       {planted{"take_in_two_steps", "offer"}, planted{"spare_in_two_steps", "accumulate"},
        planted{"collect_gives_up", "latest"}, planted{"collect_gives_back_too_early", "latest"},
        planted{"absorb_forgets_rounds", "latest"}, planted{"absorb_forgets_rounds", "accumulate"},
        planted{"absorb_forgets_rounds", "history"}, planted{"takes_the_last_first", "history"},
        planted{"lends_what_it_gives_back", "lend latest"}, planted{"replaces_what_was_captured", "offer"},
        planted{"asks_last_who_has_left", "leave"}, planted{"round_before_its_time", "calls"},
        planted{"time_read_too_late", "calls"}, planted{"claims_without_order", "sender gives up"},
        planted{"asks_before_it_claims", "sender gives up"}, planted{"last_canceller_on_record", "two give up"}}) {
    const report found = run(scenario, {.bug = bug});
    EXPECT_NE(found.path, "") << bug << " is not caught: " << to_text(found);
  }
}

}  // namespace
}  // namespace models
