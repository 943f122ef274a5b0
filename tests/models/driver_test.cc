// Tests the worlds of driver_worlds.cc and direct_worlds.cc: ownership of the engine, posts (requests to the engine),
// the doorbell and direct sleep. The explorer executes every interleaving of the threads' accesses, with store buffers.
// If all threads sleep or have left, an unhandled message or post is a fault.
#include <gtest/gtest.h>

#include "tests/models/expect.h"

namespace models {
namespace {

TEST(driver_model, no_message_and_no_post_is_left_lying) {
  for (const std::string_view scenario : {"message for waiter",
                                          "messages for waiter",
                                          "engine for waiter",
                                          "message for auxiliary",
                                          "message for call",
                                          "two calls",
                                          "two posts",
                                          "two runs",
                                          "posts and steps",
                                          "round after round",
                                          "waiter and starter",
                                          "waiter and auxiliary",
                                          "job for waiter",
                                          "job for auxiliary",
                                          "job after job",
                                          "end of lane",
                                          "nap of waiter",
                                          "nap of auxiliary",
                                          "nap and call",
                                          "nap of both",
                                          "grace for waiter",
                                          "grace for auxiliary",
                                          "grace and stepper",
                                          "grace after wait",
                                          "look at round",
                                          "cancellation for waiter",
                                          "cancellation or message",
                                          "cancellation for auxiliary",
                                          "cancellation by a thread",
                                          "reader and waiter"})
    expect_right(scenario);
}

TEST(driver_model, no_message_and_no_post_is_left_lying_in_direct_sleep) {
  for (const std::string_view scenario : {"bytes for direct sleeper", "post for direct sleeper",
                                          "job for direct sleeper", "stepper beside direct sleeper"})
    expect_right(scenario);
}

// Each test visits all states. "two waiters" has 78 million states (6 minutes on one core, 3 GB). "nap handed over" has
// 29 million states (90 seconds). Each other test has 3 to 6 million states (10 to 20 seconds). A search that reaches a
// limit fails.
constexpr limits k_large{.states = 100'000'000, .time = std::chrono::seconds(3000)};

TEST(driver_model_soak, two_waiters) { expect_right("two waiters", k_large); }
TEST(driver_model_soak, one_gives_up) {
  for (const std::string_view scenario : {"one gives up", "one gives up beside auxiliary", "claimant gives up",
                                          "direct and futex sleeper", "post for both sleepers"})
    expect_right(scenario, k_large);
}
TEST(driver_model_soak, stop_of_auxiliary) { expect_right("stop of auxiliary", k_large); }
TEST(driver_model_soak, nap_handed_over) { expect_right("nap handed over", k_large); }
TEST(driver_model_soak, nap_of_two_waiters) { expect_right("nap of two waiters", k_large); }
TEST(driver_model_soak, left_to_caller) { expect_right("left to caller", k_large); }

// --- planted bugs ----------------------------------------------------------------------------------------------------

TEST(driver_model_bug, every_changed_line_is_caught) {
  expect_caught({
      {"no_look_for_posts_after_letting_go", "two posts"},
      {"no_look_for_who_was_shut_out", "message for auxiliary"},
      {"forgets_whom_it_shut_out", "message for auxiliary"},
      {"expects_nothing_although_it_listens", "message for auxiliary"},
      {"no_look_after_a_call", "message for call"},
      {"keeps_polling_although_it_should_hear", "message for auxiliary"},
      {"no_look_after_announcing", "message for auxiliary"},
      {"epoch_read_too_late", "message for waiter"},
      {"no_hand_over_when_leaving", "one gives up"},
      {"leaves_without_a_replacement", "one gives up beside auxiliary"},
      {"wakes_before_the_word_changes", "message for waiter"},
      {"no_flush_after_a_step", "engine for waiter"},
      {"cancellation_not_taken", "cancellation for waiter"},
      {"cancellation_not_taken", "cancellation for auxiliary"},
      {"verdict_before_the_last_read", "reader and waiter"},
      {"stays_open_to_readers", "reader and waiter"},
      {"closes_after_it_asks", "reader and waiter"},
      {"readers_not_polled", "reader and waiter"},
      {"sleeps_while_it_is_read", "reader and waiter"},
      {"post_in_two_steps", "two posts"},
      {"post_taken_too_late", "round after round"},
      {"nap_chosen_before_the_last_look", "nap of auxiliary"},
      {"nap_chosen_before_the_last_look", "nap and call"},
      {"leaves_nobody_to_nap", "nap of auxiliary"},
      {"sleeps_where_nobody_rings", "nap of waiter"},
      {"sleeps_where_nobody_rings", "nap of both"},
      {"never_looks_at_what_it_left", "look at round"},
      {"looks_for_ever", "look at round"},
      {"end_of_job_not_rung", "job for waiter"},
      {"end_of_job_not_rung", "job for auxiliary"},
      {"rings_for_the_last_piece_begun", "job for waiter"},
      {"deaf_to_jobs", "job for auxiliary"},
      {"slot_given_away_too_early", "job for waiter"},
      {"closes_without_waiting", "end of lane"},
  });
}

TEST(driver_model_bug, every_changed_line_of_a_grace_is_caught) {
  expect_caught({
      {"sleeps_longer_than_a_grace", "grace for waiter"},
      {"sleeps_longer_than_a_grace", "grace for auxiliary"},
      {"lets_the_auxiliary_sleep", "grace for auxiliary"},
      {"graces_not_polled", "grace for waiter"},
  });
}

TEST(driver_model_bug, every_changed_line_of_direct_sleep_is_caught) {
  expect_caught({
      {"leaves_without_a_replacement", "claimant gives up"},
      {"claim_never_ends", "claimant gives up"},
      {"sleeps_beside_an_ended_claim", "direct and futex sleeper"},
      {"second_wait_without_a_look_at_the_word", "post for direct sleeper"},
      {"reads_the_event_after_the_word", "post for direct sleeper"},
      {"rings_no_direct_sleeper", "post for direct sleeper"},
      {"writes_the_event_before_the_word_changes", "job for direct sleeper"},
      {"claims_what_is_claimed", "post for both sleepers"},
  });
}

// These changes of the code only wake two threads for one message.
TEST(driver_model, a_second_thread_that_wakes_for_the_bytes_does_no_harm) {
  for (const std::string_view change : {"arms_beside_a_claim", "claims_after_the_last_look"})
    for (const std::string_view scenario : {"bytes for direct sleeper", "stepper beside direct sleeper"}) {
      const report found = run(scenario, {.bug = change});
      EXPECT_EQ(found.fault, "") << change << ": " << to_text(found);
    }
}

// This is the classic fault: both threads read before either store has left its store buffer. (If a round ends directly
// after a send, the engine executes a locked instruction, which also empties the store buffer. The engine executes no
// such instruction after a send in the middle of a round.)
TEST(driver_model_bug, messages_published_without_a_fence_are_caught) {
  for (const std::string_view scenario : {"message for waiter", "messages for waiter"}) {
    const report found = run(scenario, {.bug = "looks_without_a_fence"});
    EXPECT_NE(found.fault.find("a wake-up is lost"), std::string::npos) << scenario << ": " << to_text(found);
    EXPECT_EQ(run(scenario, {.bug = "looks_without_a_fence", .model = memory::sc}).fault, "") << scenario;
  }
}

struct weaker_store {
  std::string_view variable;
  std::string_view scenario;
};

// The stores to `polling` and `owner` must not be weaker. The stores to `wanted` and `finished` may be weaker, because
// a locked instruction follows them.
TEST(driver_model_bug, a_weaker_store_is_caught) {
  for (const auto& [variable, scenario] :
       {weaker_store{"polling", "message for waiter"}, weaker_store{"owner", "two posts"}}) {
    const report found = run(scenario, {.weakened = variable});
    EXPECT_NE(found.path, "") << variable << " is not caught: " << to_text(found);
  }
  for (const auto& [variable, scenario] :
       {weaker_store{"wanted", "message for auxiliary"}, weaker_store{"finished", "two runs"}})
    EXPECT_EQ(run(scenario, {.weakened = variable}).fault, "") << variable;
}

}  // namespace
}  // namespace models
