// Who reads memory that is given up, in every order of the accesses and with store buffers: claim_worlds.cc.
#include <gtest/gtest.h>

#include "tests/models/worlds.h"

namespace models {
namespace {

TEST(claim_model, nothing_is_read_that_was_given_up) {
  for (const std::string_view scenario : {"sender gives up", "two give up"}) {
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

TEST(claim_model_bug, every_changed_line_is_caught) {
  for (const auto& [bug, scenario] :
       {planted{"claims_without_order", "sender gives up"}, planted{"asks_before_it_claims", "sender gives up"},
        planted{"last_canceller_on_record", "two give up"}}) {
    const report found = run(scenario, {.bug = bug});
    EXPECT_NE(found.path, "") << bug << " is not caught: " << to_text(found);
  }
}

}  // namespace
}  // namespace models
