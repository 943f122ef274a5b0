#include "offload/cores.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

namespace lsched {
namespace {

TEST(cores, allowed_ones_are_those_of_the_affinity_mask_ascending) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  const auto cores = allowed_cores();
  EXPECT_EQ(cores.size(), static_cast<std::size_t>(CPU_COUNT(&allowed)));
  EXPECT_TRUE(std::ranges::is_sorted(cores));
  for (const unsigned core : cores) EXPECT_TRUE(CPU_ISSET(core, &allowed));
}

TEST(cores, a_quota_grants_at_most_what_there_is_and_at_least_one) {
  EXPECT_EQ(within_quota(0), 1u);
  EXPECT_EQ(within_quota(1), 1u);
  EXPECT_LE(within_quota(1000), 1000u);
}

TEST(cores, usable_ones_are_at_least_one_and_at_most_the_affinity_mask) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  EXPECT_GE(usable_cores(), 1u);
  EXPECT_LE(usable_cores(), static_cast<unsigned>(CPU_COUNT(&allowed)));
}

TEST(cores, usable_ones_follow_the_affinity_mask) {
  cpu_set_t before;
  CPU_ZERO(&before);
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(static_cast<unsigned>(sched_getcpu()), &only);
  ASSERT_EQ(sched_setaffinity(0, sizeof only, &only), 0);
  EXPECT_EQ(usable_cores(), 1u);
  EXPECT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

TEST(cores, a_thread_is_awake_while_it_runs_and_asleep_while_it_waits_for_something) {
  EXPECT_FALSE(is_asleep(this_thread_number()));
  std::atomic<int> sleeper{0};
  std::atomic<bool> is_over{false};
  const std::jthread other([&] {
    sleeper.store(this_thread_number());
    sleeper.notify_one();
    is_over.wait(false);
  });
  sleeper.wait(0);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!is_asleep(sleeper.load()) && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
  EXPECT_TRUE(is_asleep(sleeper.load()));
  is_over.store(true);
  is_over.notify_one();
}

TEST(cores, a_thread_that_nobody_knows_counts_as_asleep) { EXPECT_TRUE(is_asleep(-1)); }

}  // namespace
}  // namespace lsched
