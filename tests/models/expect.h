// Checks that several tests apply to scenarios.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>

#include "tests/models/worlds.h"

namespace models {

inline void expect_right(std::string_view scenario, const limits& most = {}) {
  const report found = run(scenario, {.most = most});
  EXPECT_EQ(found.fault, "") << scenario << ": " << to_text(found);
  EXPECT_GT(found.ends, 0u);
  ::testing::Test::RecordProperty(std::string(scenario), to_text(found));
}

struct bug_in_scenario {
  std::string_view bug;
  std::string_view scenario;
};

/// Plants each bug in its scenario, and expects a fault.
inline void expect_caught(std::initializer_list<bug_in_scenario> all) {
  for (const auto& [bug, scenario] : all) {
    const report found = run(scenario, {.bug = bug});
    EXPECT_NE(found.path, "") << bug << " is not caught: " << to_text(found);
  }
}

}  // namespace models
