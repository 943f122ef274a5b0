// Tests of sums with ranks as processes. Each rank has a lane of two worker threads, although there are fewer free
// cores.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "bindings/c/world.h"
#include "build_options.h"
#include "libsched/transport/shm/shm_segment.h"
#include "tests/support/child_ranks.h"
#include "tests/support/launched_rank.h"

namespace lsched {
namespace {

constexpr std::uint64_t k_limit_ns = 20'000'000'000;

int blame(const char* what, const lsched_diagnostic& why) {
  std::fprintf(stderr, "%s: %s\n", what, why.text);
  return 1;
}

/// The main function of a rank's process: runs allreduces with counts below and above the minimum for which the lane is
/// used. Returns the exit status.
[[maybe_unused]] int live(const shm_segment& segment, rank self, const char* algorithm, bool is_caller_driven) {
  testing::be_launched(segment, self);
  setenv("LSCHED_LANE", "tbb:2", 1);
  setenv("LSCHED_PROGRESS", is_caller_driven ? "caller" : "thread", 1);
  lsched_world* runtime = nullptr;
  lsched_diagnostic why{.struct_size = sizeof why};
  if (lsched_world_open(nullptr, &runtime, &why) != LSCHED_OK) return blame("open", why);
  const std::int64_t ranks = segment.ranks();
  for (const std::uint64_t count : {0u, 1u, 1000u, 300'001u}) {
    std::vector<std::int64_t> input(count), output(count);
    lsched_collective_desc desc{.struct_size = sizeof desc,
                                .collective = "allreduce",
                                .input = input.data(),
                                .output = output.data(),
                                .count = count,
                                .dtype = LSCHED_I64,
                                .reduction = LSCHED_SUM,
                                .algorithm = algorithm};
    lsched_schedule* sum = nullptr;
    if (lsched_collective_create(runtime, &desc, &sum, &why) != LSCHED_OK) return blame("create", why);
    for (std::int64_t round = 1; round <= 4; ++round) {
      for (std::uint64_t i = 0; i < count; ++i) input[i] = round * (self + 1) + static_cast<std::int64_t>(i % 1000);
      lsched_ticket ticket{};
      if (lsched_start(sum, &ticket) != LSCHED_OK || lsched_wait(ticket, k_limit_ns, &why) != LSCHED_OK)
        return blame("round", why);
      for (std::uint64_t i = 0; i < count; ++i)
        if (output[i] != round * ranks * (ranks + 1) / 2 + ranks * static_cast<std::int64_t>(i % 1000)) return 2;
    }
    if (lsched_schedule_destroy(sum, k_limit_ns, &why) != LSCHED_OK) return blame("destroy", why);
  }
  const std::uint64_t jobs = runtime->process.engine().counters().lane_jobs;
  if (lsched_world_close(runtime) != LSCHED_OK) return 3;
  return self == 0 && jobs == 0 ? 4 : 0;  // rank 0 must use its lane; other ranks may have nothing to add
}

#if LSCHED_HAVE_TBB
TEST(lane, sums_of_processes_are_exact_on_it) {
  for (const rank ranks : {3, 5})
    for (const bool is_caller_driven : {false, true}) {
      auto segment = shm_segment::create(ranks, 256 << 20);
      ASSERT_TRUE(segment) << segment.error().text;
      testing::child_ranks children(
          ranks, [&](rank self) { return live(**segment, self, "recursive_doubling", is_caller_driven); });
      EXPECT_EQ(children.wait(), "");
    }
}

TEST(lane, sums_of_processes_are_exact_by_whatever_auto_is) {
  auto segment = shm_segment::create(3, 256 << 20);
  ASSERT_TRUE(segment) << segment.error().text;
  testing::child_ranks children(3, [&](rank self) {
    const int answer = live(**segment, self, nullptr, false);
    return answer == 4 ? 0 : answer;  // 4 (no lane job) is right, too: pieces may be too small for the lane
  });
  EXPECT_EQ(children.wait(), "");
}
#endif

}  // namespace
}  // namespace lsched
