// Tests of lsched_once, which creates a schedule, runs one round and destroys the schedule.
#include <gtest/gtest.h>

#include <cstdint>
#include <latch>
#include <string>
#include <vector>

#include "bindings/c/lsched.h"
#include "bindings/cpp/lsched.hpp"
#include "tests/support/thread_ranks.h"

namespace lsched::testing {
namespace {

lsched_collective_desc sum_of(const std::vector<std::int64_t>& input, std::vector<std::int64_t>& output) {
  lsched_collective_desc desc{};
  desc.struct_size = sizeof desc;
  desc.collective = "allreduce";
  desc.input = input.data();
  desc.output = output.data();
  desc.count = input.size();
  desc.dtype = LSCHED_I64;
  desc.reduction = LSCHED_SUM;
  return desc;
}

TEST(once, sums_for_any_number_of_ranks_and_elements) {
  for (const std::int32_t ranks : {3, 5, 6, 7, 1, 2, 4, 8})
    for (const std::size_t count : {0u, 1u, 1000u})
      as_ranks(ranks, [&](lsched_world* world, std::int32_t rank) {
        for (int time = 0; time < 3; ++time) {
          const std::vector<std::int64_t> input(count, rank + time);
          std::vector<std::int64_t> output(count, -1);
          const lsched_collective_desc desc = sum_of(input, output);
          diagnostic why;
          ASSERT_EQ(lsched_once(world, &desc, k_limit_ns, &why), LSCHED_OK) << why.text;
          const std::int64_t sum = ranks * (ranks - 1) / 2 + ranks * time;
          EXPECT_EQ(output, std::vector<std::int64_t>(count, sum));
        }
      });
}

TEST(once, a_bad_argument_of_a_rank_is_an_error_on_all_ranks_and_the_next_call_is_right) {
  as_ranks(3, [](lsched_world* world, std::int32_t rank) {
    const std::vector<std::int64_t> input(4, 1);
    std::vector<std::int64_t> output(4);
    lsched_collective_desc desc = sum_of(input, output);
    if (rank == 1) desc.depth = 2;
    diagnostic why;
    EXPECT_EQ(lsched_once(world, &desc, k_limit_ns, &why), LSCHED_ERR_ARGUMENT);
    EXPECT_TRUE(why.says("depth")) << why.text;
    desc.depth = 0;
    EXPECT_EQ(lsched_once(world, &desc, k_limit_ns, &why), LSCHED_OK) << why.text;
    EXPECT_EQ(output, std::vector<std::int64_t>(4, 3));
    EXPECT_EQ(lsched_once(nullptr, &desc, k_limit_ns, &why), LSCHED_ERR_ARGUMENT);
    EXPECT_EQ(lsched_once(world, nullptr, k_limit_ns, &why), LSCHED_ERR_ARGUMENT);
  });
}

// At first rank 2 runs no round, so that lsched_once times out on the other ranks and cancels the round. The world must
// stay usable.
TEST(once, a_timeout_gives_the_memory_back_and_the_world_goes_on) {
  std::latch have_returned(2);
  as_ranks(3, [&](lsched_world* world, std::int32_t rank) {
    std::vector<std::int64_t> input(50'000, 1), output(50'000);
    const lsched_collective_desc desc = sum_of(input, output);
    diagnostic why;
    if (rank == 2) {
      lsched_schedule* schedule = nullptr;
      ASSERT_EQ(lsched_collective_create(world, &desc, &schedule, &why), LSCHED_OK) << why.text;
      have_returned.wait();
      EXPECT_EQ(lsched_run(schedule, k_limit_ns, &why), LSCHED_ERR_CANCELLED) << why.text;
      EXPECT_EQ(lsched_schedule_destroy(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
    } else {
      const lsched_status answer = lsched_once(world, &desc, 20'000'000, &why);
      EXPECT_TRUE(answer == LSCHED_ERR_TIMEOUT || answer == LSCHED_ERR_CANCELLED) << why.text;
      have_returned.count_down();
    }
    input.assign(input.size(), 2);
    EXPECT_EQ(lsched_once(world, &desc, k_limit_ns, &why), LSCHED_OK) << why.text;
    EXPECT_EQ(output, std::vector<std::int64_t>(output.size(), 6));
  });
}

TEST(once, in_cpp_throws_what_the_c_function_returns) {
  std::vector<world> worlds = world::open_threads(1, test_config());
  const std::vector<std::int64_t> input{7};
  std::vector<std::int64_t> output{0};
  worlds.front().once(sum_of(input, output));
  EXPECT_EQ(output.front(), 7);
  EXPECT_THROW(worlds.front().once({}), error);
}

}  // namespace
}  // namespace lsched::testing
