// Ranks of the C interface that are threads of a test.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "bindings/c/lsched.h"

namespace lsched::testing {

constexpr std::uint64_t k_limit_ns = 30'000'000'000;

struct diagnostic : lsched_diagnostic {
  diagnostic() { lsched_diagnostic_init(this); }
};

/// Runs `body` as each rank of a world of threads.
inline void as_ranks(std::int32_t size, const std::function<void(lsched_world*, std::size_t)>& body) {
  lsched_config config;
  lsched_config_init(&config);
  config.commit_timeout_ns = k_limit_ns;
  std::vector<lsched_world*> world(static_cast<std::size_t>(size));
  diagnostic why;
  ASSERT_EQ(lsched_world_open_threads(size, &config, world.data(), &why), LSCHED_OK) << why.text;
  {
    std::vector<std::jthread> all;
    for (std::size_t r = 0; r < world.size(); ++r) all.emplace_back([&, r] { body(world[r], r); });
  }
  for (lsched_world* one : world) EXPECT_EQ(lsched_world_close(one), LSCHED_OK);
}

}  // namespace lsched::testing
