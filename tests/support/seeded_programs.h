// Random programs, one per seed, for ranks that are threads or processes of a test.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

#include "tests/support/process_ranks.h"
#include "tests/support/thread_ranks.h"

namespace lsched::testing {

/// A function that runs one rank's part of the program that `seed` determines, and leaves the world open. The function
/// returns a description of the first error, or an empty string.
using seeded_program = std::string (*)(std::uint64_t seed, lsched_world* world);

constexpr std::int32_t ranks_for(std::uint64_t seed) { return static_cast<std::int32_t>(1 + seed % 8); }

inline void run_as_threads(seeded_program perform, std::uint64_t first, std::uint64_t last) {
  for (std::uint64_t seed = first; seed <= last && !::testing::Test::HasFailure(); ++seed)
    world_of_threads(ranks_for(seed)).each([=](lsched_world* mine, std::int32_t) {
      EXPECT_EQ(perform(seed, mine), "") << "seed " << seed << ", " << lsched_size(mine) << " ranks";
    });
}

inline void run_as_processes(seeded_program perform, std::uint64_t first, std::uint64_t last) {
  for (std::uint64_t seed = first; seed <= last && !::testing::Test::HasFailure(); ++seed) {
    const auto life = [&]() -> int {
      const lsched_config config = test_config();
      lsched_world* opened = nullptr;
      diagnostic why;
      if (lsched_world_open(&config, &opened, &why) != LSCHED_OK) return 2;
      const std::string wrong = perform(seed, opened);
      if (!wrong.empty()) std::fprintf(stderr, "%s\n", wrong.c_str());
      return wrong.empty() && lsched_world_close(opened) == LSCHED_OK ? 0 : 1;
    };
    EXPECT_EQ(run_processes(ranks_for(seed), life, std::chrono::seconds(60)), "")
        << "seed " << seed << ", " << ranks_for(seed) << " ranks";
  }
}

}  // namespace lsched::testing
