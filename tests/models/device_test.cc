// Tests the worlds of device_worlds.cc, in which jobs end and streams reach gates while no thread polls.
#include <gtest/gtest.h>

#include "tests/models/expect.h"

namespace models {
namespace {

TEST(device_model, rings_get_every_round_on) {
  for (const std::string_view scenario :
       {"device job for waiter", "device job for auxiliary", "job left to caller", "job behind job for waiter",
        "job beside job for waiter", "device and waiter", "gate for waiter", "gate for auxiliary",
        "gate behind gate for waiter", "gate beside gate for waiter", "gate and stepper", "cancellation at gate"})
    expect_right(scenario);
}

// Each search has up to 5 million states, and needs up to 20 seconds on one core.
constexpr limits k_large{.states = 20'000'000, .time = std::chrono::seconds(1000)};

TEST(device_model_soak, two_jobs) {
  expect_right("job behind job", k_large);
  expect_right("job beside job", k_large);
}
TEST(device_model_soak, a_job_behind_a_gate) { expect_right("job behind gate", k_large); }
TEST(device_model_soak, two_gates) {
  expect_right("gate behind gate", k_large);
  expect_right("gate beside gate", k_large);
}

TEST(device_model, where_no_ring_comes_naps_get_every_round_on) {
  for (const std::string_view scenario : {"lost ring for waiter", "lost ring for auxiliary", "lost ring at gate",
                                          "no ring for waiter", "no ring for auxiliary", "no ring at gate"})
    expect_right(scenario);
}

TEST(device_model_bug, every_changed_line_is_caught) {
  expect_caught({
      {"no_cap_on_naps", "lost ring for waiter"},
      {"sleeps_for_long_beside_a_device", "lost ring for auxiliary"},
      {"arms_after_the_last_look", "device job for waiter"},
      {"arms_after_the_last_look", "gate for auxiliary"},
      {"never_looks_at_what_it_left", "job left to caller"},
      {"arms_no_job", "device job for waiter"},
      {"next_job_not_armed", "job behind job for waiter"},
      {"further_job_not_armed", "job beside job for waiter"},
      {"arms_no_gate", "gate for auxiliary"},
      {"further_gate_not_armed", "gate beside gate for waiter"},
      {"rounds_called_ahead_are_forgotten", "gate behind gate for waiter"},
      {"armed_gate_is_forgotten", "gate for waiter"},
      {"deaf_to_gates", "gate for auxiliary"},
      {"gates_not_polled", "gate for waiter"},
      {"deaf_to_jobs", "device job for auxiliary"},
      {"no_look_after_announcing", "device job for auxiliary"},
      {"rings_without_a_look_at_sleepers", "device job for waiter"},
      {"calls_before_it_asks", "gate and stepper"},
      {"posts_before_it_calls", "gate for auxiliary"},
      {"releases_before_the_verdict", "cancellation at gate"},
      {"sleeps_where_nobody_rings", "no ring for auxiliary"},
      {"leaves_nobody_to_nap", "no ring for auxiliary"},
  });
}

// The device writes `event` and then reads `armed`. The thread that arms the device writes `armed` and then reads
// `event`. Both stores must be sequentially consistent.
TEST(device_model_bug, a_weaker_store_is_caught) {
  for (const std::string_view variable : {"event", "armed"}) {
    const report found = run("device job for waiter", {.weakened = variable});
    EXPECT_NE(found.path, "") << variable << " is not caught: " << to_text(found);
  }
}

}  // namespace
}  // namespace models
