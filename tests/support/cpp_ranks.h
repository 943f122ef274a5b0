// Ranks of the C++ interface, as threads or processes of a test.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bindings/cpp/lsched.hpp"
#include "tests/support/process_ranks.h"

namespace lsched::testing {

/// Runs `body` in one thread per rank of the world, and joins all threads. An exception in one of the threads fails the
/// test.
inline void as_ranks(std::vector<lsched::world> world, const std::function<void(lsched::world&)>& body) {
  std::vector<std::jthread> threads;
  for (lsched::world& mine : world)
    threads.emplace_back([&] {
      try {
        body(mine);
        mine.close();
      } catch (const std::exception& why) {
        ADD_FAILURE() << why.what();
      }
    });
}

inline void as_ranks(std::int32_t ranks, const std::function<void(lsched::world&)>& body) {
  lsched_config config = lsched::world::default_config();
  config.commit_timeout_ns = timeout(std::chrono::seconds(20)).ns();
  as_ranks(lsched::world::open_threads(ranks, config), body);
}

/// Runs `body` in one process per rank. An exception or a failed expectation in one of the processes fails the test.
inline void as_processes(std::int32_t ranks, const std::function<void(lsched::world&)>& body,
                         std::chrono::seconds limit) {
  const auto live = [&] {
    try {
      lsched::world mine;
      body(mine);
      mine.close();
    } catch (const std::exception& why) {
      ADD_FAILURE() << why.what();
    }
    return ::testing::Test::HasFailure() ? 1 : 0;
  };
  EXPECT_EQ(run_processes(ranks, live, limit), "");
}

}  // namespace lsched::testing
