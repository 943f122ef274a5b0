#include "bindings/cli/common/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <stdexcept>
#include <string>

namespace lsched::cli {
namespace {

using numbers = std::vector<std::size_t>;

numbers up_to(std::size_t count) {
  numbers all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = i;
  return all;
}

TEST(in_order, results_are_told_in_order_whichever_is_ready_first) {
  for (const std::size_t count : {0u, 1u, 2u, 3u, 1000u}) {
    std::latch last_has_begun(usable_cores() > 1 && count > 1 ? 1 : 0);
    numbers told;
    in_order(
        count,
        [&](std::size_t i) {
          if (i == 0) last_has_begun.wait();  // result 1 is ready before result 0
          if (i == 1) last_has_begun.count_down();
          return std::make_unique<std::size_t>(i);
        },
        [&](std::size_t i, const std::unique_ptr<std::size_t>& result) {
          EXPECT_EQ(*result, i);
          told.push_back(i);
        });
    EXPECT_EQ(told, up_to(count));
  }
}

TEST(in_order, few_results_wait_for_a_slow_one) {
  constexpr std::size_t k_most_ahead = 64;
  if (usable_cores() < 2) GTEST_SKIP() << "needs a second core";
  std::atomic<std::size_t> begun{0}, told{0}, most{0};
  in_order(
      500,
      [&](std::size_t i) {
        const std::size_t mine = ++begun;
        const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
        if (i == 0)
          while (begun < k_most_ahead && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
        most = std::max(most.load(), mine - told);
        return i;
      },
      [&](std::size_t, std::size_t) { ++told; });
  EXPECT_EQ(most.load(), k_most_ahead);
}

/// Jobs 3 and 5 fail. If the machine has two cores, job 5 fails earlier than job 3.
TEST(in_order, the_first_failure_in_order_is_thrown_after_what_comes_before_it) {
  std::latch later_has_failed(usable_cores() > 1 ? 1 : 0);
  numbers told;
  const auto job = [&](std::size_t i) {
    if (i == 3) later_has_failed.wait();
    if (i == 5) later_has_failed.count_down();
    if (i == 3 || i == 5) throw std::runtime_error("job " + std::to_string(i));
    return i;
  };
  try {
    in_order(1000, job, [&](std::size_t i, std::size_t) { told.push_back(i); });
    ADD_FAILURE() << "nothing was thrown";
  } catch (const std::runtime_error& why) {
    EXPECT_STREQ(why.what(), "job 3");
  }
  EXPECT_EQ(told, up_to(3));
}

TEST(in_order, a_failure_to_tell_ends_it) {
  numbers told;
  const auto tell = [&](std::size_t i, std::size_t) {
    if (i == 2) throw std::runtime_error("tell");
    told.push_back(i);
  };
  EXPECT_THROW(in_order(
                   1000, [](std::size_t i) { return i; }, tell),
               std::runtime_error);
  EXPECT_EQ(told, up_to(2));
}

}  // namespace
}  // namespace lsched::cli
