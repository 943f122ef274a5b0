// Tests the worlds of device_worlds.cc, in which jobs end and streams reach gates while no thread polls.
#include <gtest/gtest.h>

#include "tests/models/worlds.h"

namespace models {
namespace {

void expect_right(std::string_view scenario, const limits& most = {}) {
  const report found = run(scenario, {.most = most});
  EXPECT_EQ(found.fault, "") << scenario << ": " << to_text(found);
  EXPECT_GT(found.ends, 0u);
  ::testing::Test::RecordProperty(std::string(scenario), to_text(found));
}

TEST(device_model, rings_get_every_round_on) {
  for (const std::string_view scenario :
       {"device job for waiter", "device job for auxiliary", "job left to caller", "job behind job for waiter",
        "job beside job for waiter", "device and waiter", "gate for waiter", "gate for auxiliary",
        "gate behind gate for waiter", "gate beside gate for waiter", "gate and stepper", "cancellation at gate"})
    expect_right(scenario);
}

// Each test has up to 5 million states, and needs up to 20 seconds on one core.
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

struct planted {
  std::string_view bug;
  std::string_view scenario;
};

TEST(device_model_bug, every_changed_line_is_caught) {
  for (const auto& [bug, scenario] : {
           planted{"no_cap_on_naps", "lost ring for waiter"},
           planted{"sleeps_for_long_beside_a_device", "lost ring for auxiliary"},
           planted{"arms_after_the_last_look", "device job for waiter"},
           planted{"arms_after_the_last_look", "gate for auxiliary"},
           planted{"never_looks_at_what_it_left", "job left to caller"},
           planted{"arms_no_job", "device job for waiter"},
           planted{"next_job_not_armed", "job behind job for waiter"},
           planted{"further_job_not_armed", "job beside job for waiter"},
           planted{"arms_no_gate", "gate for auxiliary"},
           planted{"further_gate_not_armed", "gate beside gate for waiter"},
           planted{"rounds_called_ahead_are_forgotten", "gate behind gate for waiter"},
           planted{"armed_gate_is_forgotten", "gate for waiter"},
           planted{"deaf_to_gates", "gate for auxiliary"},
           planted{"gates_not_polled", "gate for waiter"},
           planted{"deaf_to_jobs", "device job for auxiliary"},
           planted{"no_look_after_announcing", "device job for auxiliary"},
           planted{"rings_without_a_look_at_sleepers", "device job for waiter"},
           planted{"calls_before_it_asks", "gate and stepper"},
           planted{"posts_before_it_calls", "gate for auxiliary"},
           planted{"releases_before_the_verdict", "cancellation at gate"},
           planted{"sleeps_where_nobody_rings", "no ring for auxiliary"},
           planted{"leaves_nobody_to_nap", "no ring for auxiliary"},
       }) {
    const report found = run(scenario, {.bug = bug});
    EXPECT_NE(found.path, "") << bug << " is not caught: " << to_text(found);
  }
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
