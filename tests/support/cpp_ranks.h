// Ranks of the C++ interface that are threads of a test, or processes.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bindings/cpp/lsched.hpp"
#include "tests/support/process_ranks.h"

namespace lsched::testing {

/// One thread per rank of the world, all joined. What a rank throws is the test's failure.
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

/// Each rank is a process. What a rank throws, or expects in vain, is the test's failure.
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

/// With so many neighbours on a node.
inline void as_nodes(std::int32_t ranks, std::int32_t ranks_per_node, const std::function<void(lsched::world&)>& body) {
  setenv("LSCHED_RANKS_PER_NODE", std::to_string(ranks_per_node).c_str(), 1);
  std::vector<lsched::world> world = lsched::world::open_threads(ranks);
  unsetenv("LSCHED_RANKS_PER_NODE");
  as_ranks(std::move(world), body);
}

}  // namespace lsched::testing
