// Tests the worlds of hand_over_worlds.cc and claim_worlds.cc. Threads hand over the buffers of a partial instance.
// Ranks give up an instance while a receiver reads the sender's memory. The explorer executes every interleaving of the
// threads' accesses.
#include <gtest/gtest.h>

#include "tests/models/expect.h"

namespace models {
namespace {

TEST(hand_over_model, nothing_is_lost_and_nothing_counted_twice) {
  for (const std::string_view scenario :
       {"offer", "offer by bucket", "late offer", "withdraw", "leave", "latest", "accumulate", "history", "lend latest",
        "lend history", "calls", "sender gives up", "two give up"})
    expect_right(scenario);
}

TEST(hand_over_model_bug, every_changed_line_is_caught) {
  expect_caught({{"take_in_two_steps", "offer"},
                 {"spare_in_two_steps", "accumulate"},
                 {"collect_gives_up", "latest"},
                 {"collect_gives_back_too_early", "latest"},
                 {"weight_lost_in_a_merge", "offer"},
                 {"weight_counted_without_scaling", "offer"},
                 {"merged_without_scaling", "offer"},
                 {"merged_without_scaling", "offer by bucket"},
                 {"age_applied_twice", "late offer"},
                 {"age_not_applied", "late offer"},
                 {"prepared_gradient_is_not_scaled", "offer by bucket"},
                 {"absorb_forgets_rounds", "latest"},
                 {"absorb_forgets_rounds", "accumulate"},
                 {"absorb_forgets_rounds", "history"},
                 {"takes_the_last_first", "history"},
                 {"queues_before_it_takes_a_spare", "latest"},
                 {"queues_before_it_takes_a_spare", "history"},
                 {"commit_takes_what_is_pending", "offer by bucket"},
                 {"lends_what_it_gives_back", "lend latest"},
                 {"replaces_what_was_captured", "offer"},
                 {"asks_last_who_has_left", "leave"},
                 {"round_before_its_time", "calls"},
                 {"time_read_too_late", "calls"},
                 {"claims_without_order", "sender gives up"},
                 {"asks_before_it_claims", "sender gives up"},
                 {"last_canceller_on_record", "two give up"}});
}

}  // namespace
}  // namespace models
