// Tests of non-blocking creates, which do not wait for the other ranks.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdint>
#include <latch>
#include <thread>
#include <vector>

#include "libsched/transport/shm/shm_segment.h"
#include "tests/support/barrier.h"
#include "tests/support/child_ranks.h"
#include "tests/support/launched_rank.h"
#include "tests/support/process_status.h"
#include "tests/support/one_bucket.h"
#include "tests/support/sampling.h"
#include "tests/support/thread_ranks.h"

namespace lsched::testing {
namespace {

constexpr std::uint64_t k_soon_ns = 30'000'000;

struct sum_of_one {
  std::int64_t mine = 0, sum = -1;
  lsched_schedule* schedule = nullptr;
  lsched_ticket ticket{};

  lsched_status create(lsched_world* world, diagnostic& why, lsched_reduction reduction = LSCHED_SUM,
                       const char* algorithm = nullptr) {
    const lsched_collective_desc desc{.struct_size = sizeof desc,
                                      .collective = "allreduce",
                                      .input = &mine,
                                      .output = &sum,
                                      .count = 1,
                                      .dtype = LSCHED_I64,
                                      .reduction = reduction,
                                      .algorithm = algorithm};
    return lsched_collective_create(world, &desc, &schedule, &why);
  }
  void create_and_start(lsched_world* world, std::int64_t value) {
    diagnostic why;
    mine = value;
    ASSERT_EQ(create(world, why), LSCHED_OK) << why.text;
    ASSERT_EQ(lsched_start(schedule, &ticket), LSCHED_OK);
  }
  void expect(std::int64_t expected) {
    diagnostic why;
    EXPECT_EQ(lsched_wait(ticket, k_limit_ns, &why), LSCHED_OK) << why.text;
    EXPECT_EQ(sum, expected);
    destroy();
  }
  void destroy() {
    diagnostic why;
    EXPECT_EQ(lsched_schedule_destroy(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
  }
};

/// Calls `what` on every rank of a world with non-blocking creates.
template <class What>
void of_ranks(std::int32_t ranks, const What& what) {
  world_of_threads(ranks).each([&](lsched_world* mine, std::int32_t r) {
    ASSERT_EQ(lsched_world_set(mine, LSCHED_NONBLOCKING, 1), LSCHED_OK);
    what(mine, r);
  });
}

TEST(nonblocking_creates, return_and_start_while_nobody_else_has_come) {
  for (const std::int32_t ranks : {1, 2, 3, 5}) {
    std::latch first_is_done(1);
    of_ranks(ranks, [&](lsched_world* mine, std::int32_t r) {
      if (r != 0) first_is_done.wait();
      std::vector<sum_of_one> all(20);  // many creates are pending at the same time
      for (std::size_t i = 0; i < all.size(); ++i) all[i].create_and_start(mine, r + static_cast<std::int64_t>(i));
      if (r == 0) first_is_done.count_down();
      for (std::size_t i = 0; i < all.size(); ++i)
        all[i].expect(ranks * (ranks - 1) / 2 + ranks * static_cast<std::int64_t>(i));
    });
  }
}

TEST(nonblocking_creates, of_two_worlds_may_come_in_opposite_orders) {
  of_ranks(2, [](lsched_world* mine, std::int32_t r) {
    lsched_world* worlds[2];
    diagnostic why;
    for (lsched_world*& one : worlds) ASSERT_EQ(lsched_split(mine, 0, 0, &one, &why), LSCHED_OK) << why.text;
    for (int k = 0; k < 200; ++k) {
      sum_of_one first, second;
      first.create_and_start(worlds[r], 1);
      second.create_and_start(worlds[1 - r], 1);
      first.expect(2);
      second.expect(2);
    }
    for (lsched_world* one : worlds) EXPECT_EQ(lsched_world_close(one), LSCHED_OK);
  });
}

TEST(nonblocking_creates, tell_of_a_disagreement_when_they_are_waited_for) {
  of_ranks(3, [](lsched_world* mine, std::int32_t r) {
    sum_of_one odd, even;
    diagnostic why;
    ASSERT_EQ(odd.create(mine, why, r == 2 ? LSCHED_MAX : LSCHED_SUM), LSCHED_OK) << why.text;
    // If the error is already known, the call returns MISMATCH.
    const lsched_status started = lsched_start(odd.schedule, &odd.ticket);
    EXPECT_TRUE(started == LSCHED_OK || started == LSCHED_ERR_MISMATCH);
    even.create_and_start(mine, 7);
    EXPECT_EQ(lsched_create_wait(odd.schedule, k_limit_ns, &why), LSCHED_ERR_MISMATCH);
    EXPECT_TRUE(why.says("max")) << why.text;
    EXPECT_EQ(lsched_run(odd.schedule, k_limit_ns, &why), LSCHED_ERR_MISMATCH);
    EXPECT_EQ(odd.sum, -1);
    even.expect(21);
    odd.destroy();
  });
}

TEST(nonblocking_creates, answer_bad_arguments_at_once_and_tell_the_others) {
  of_ranks(3, [](lsched_world* mine, std::int32_t r) {
    sum_of_one refused, good;
    diagnostic why;
    if (r == 1) {
      EXPECT_EQ(refused.create(mine, why, LSCHED_SUM, "no such algorithm"), LSCHED_ERR_ARGUMENT);
      EXPECT_EQ(refused.schedule, nullptr);
    } else {
      ASSERT_EQ(refused.create(mine, why), LSCHED_OK) << why.text;
      EXPECT_EQ(lsched_create_wait(refused.schedule, k_limit_ns, &why), LSCHED_ERR_ARGUMENT);
      EXPECT_EQ(why.rank, 1) << why.text;
      EXPECT_TRUE(why.says("could not commit")) << why.text;
      refused.destroy();
    }
    good.create_and_start(mine, 1);
    good.expect(3);
  });
}

TEST(nonblocking_creates, name_who_has_not_come_and_go_on_when_it_has) {
  std::latch others_have_waited(2);
  of_ranks(3, [&](lsched_world* mine, std::int32_t r) {
    sum_of_one late;
    diagnostic why;
    if (r == 1) others_have_waited.wait();
    late.create_and_start(mine, r);
    if (r != 1) {
      EXPECT_EQ(lsched_wait(late.ticket, lsched::testing::until_named_ns(k_soon_ns), &why), LSCHED_ERR_TIMEOUT);
      EXPECT_EQ(why.rank, 1) << why.text;
      EXPECT_TRUE(why.says("rank 1 has not yet reached commit 0")) << why.text;
      EXPECT_EQ(lsched_create_wait(late.schedule, 0, &why), LSCHED_ERR_TIMEOUT);
      EXPECT_EQ(lsched_schedule_destroy(late.schedule, 0, &why), LSCHED_ERR_TIMEOUT);
      std::int32_t blamed = -1;
      char text[200];
      EXPECT_EQ(lsched_diagnose(mine, &blamed, text, sizeof text, nullptr), LSCHED_OK);
      EXPECT_EQ(blamed, 1) << text;
      others_have_waited.count_down();
    }
    late.expect(3);
  });
}

TEST(nonblocking_creates, that_were_cancelled_and_destroyed_early_are_known_to_all) {
  for (const bool closes : {false, true}) {
    std::latch is_gone(1);
    of_ranks(3, [&](lsched_world* mine, std::int32_t r) {
      lsched_world* made = nullptr;
      sum_of_one gone, good;
      diagnostic why;
      ASSERT_EQ(lsched_split(mine, 0, 0, &made, &why), LSCHED_OK) << why.text;
      if (r != 0) is_gone.wait();
      ASSERT_EQ(gone.create(made, why), LSCHED_OK) << why.text;
      if (r == 0) {
        ASSERT_EQ(lsched_start(gone.schedule, &gone.ticket), LSCHED_OK);
        EXPECT_EQ(lsched_cancel(gone.schedule, &why), LSCHED_OK) << why.text;
        gone.destroy();
        if (closes) {
          EXPECT_EQ(lsched_world_close(made), LSCHED_OK);
        }
        is_gone.count_down();
      } else {
        EXPECT_EQ(lsched_run(gone.schedule, k_limit_ns, &why), LSCHED_ERR_CANCELLED);
        EXPECT_EQ(why.rank, 0) << why.text;
        gone.destroy();
      }
      if (!closes) {
        good.create_and_start(made, 1);
        good.expect(3);
      }
      if (r != 0 || !closes) {
        EXPECT_EQ(lsched_world_close(made), LSCHED_OK);
      }
      good.create_and_start(mine, 1);
      good.expect(3);
    });
  }
}

TEST(nonblocking_creates, of_partial_schedules_take_offers_at_once) {
  std::latch first_is_done(1);
  of_ranks(3, [&](lsched_world* mine, std::int32_t r) {
    if (r != 0) first_is_done.wait();
    float one = 1, sum = 0;
    const lsched_partial_desc desc{.struct_size = sizeof desc,
                                   .count = 1,
                                   .dtype = LSCHED_F32,
                                   .reduction = LSCHED_SUM,
                                   .activation = "full",
                                   .averages_weights = 1};
    lsched_schedule* schedule = nullptr;
    diagnostic why;
    ASSERT_EQ(lsched_partial_create(mine, &desc, &schedule, &why), LSCHED_OK) << why.text;
    lsched_ticket ticket;
    ASSERT_EQ(lsched_offer(schedule, one_bucket(&one), &ticket), LSCHED_OK);
    if (r == 0) {
      EXPECT_EQ(lsched_collect(ticket, one_bucket(&sum), k_soon_ns, nullptr, &why), LSCHED_ERR_TIMEOUT);
      EXPECT_NE(why.rank, -1) << why.text;
      first_is_done.count_down();
    }
    EXPECT_EQ(lsched_collect(ticket, one_bucket(&sum), k_limit_ns, nullptr, &why), LSCHED_OK) << why.text;
    EXPECT_EQ(sum, 3);
    EXPECT_EQ(lsched_model_sync(schedule, &one, k_limit_ns, nullptr, &why), LSCHED_OK) << why.text;
    EXPECT_EQ(lsched_schedule_destroy(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
  });
}

TEST(nonblocking_creates, fail_where_a_rank_dies_instead) {
  const auto segment = *shm_segment::create(3, 16 << 20);
  child_ranks children(3, [&](rank self) {
    be_launched(*segment, self);
    lsched_world* opened = nullptr;
    if (lsched_world_open(nullptr, &opened, nullptr) != LSCHED_OK) return 9;
    lsched_schedule* barrier = nullptr;  // the create waits until all ranks have opened the world
    if (create_barrier(opened, &barrier, nullptr) != LSCHED_OK) return 15;
    if (self == 1) raise(SIGKILL);
    if (lsched_schedule_destroy(barrier, k_limit_ns, nullptr) != LSCHED_OK) return 16;
    if (lsched_world_set(opened, LSCHED_NONBLOCKING, 1) != LSCHED_OK) return 10;
    sum_of_one lost;
    diagnostic why;
    const lsched_status created = lost.create(opened, why);
    if (created != LSCHED_OK) return 11;
    if (lsched_run(lost.schedule, k_limit_ns, &why) != LSCHED_ERR_PEER || why.rank != 1) return 12;
    if (lsched_schedule_destroy(lost.schedule, 0, &why) != LSCHED_OK) return 13;
    return lsched_world_close(opened) == LSCHED_OK ? 0 : 14;
  });
  EXPECT_EQ(children.wait(), "rank 1 was ended by signal 9; ");
}

TEST(nonblocking_creates, are_many_and_leave_nothing) {
  const std::size_t many = full() ? 20'000 : sampled() ? 200 : 2'000;
  const int turns = full() ? 100'000 : sampled() ? 500 : 5'000;
  of_ranks(2, [&](lsched_world* mine, std::int32_t r) {
    std::vector<sum_of_one> all(many);
    for (sum_of_one& one : all) one.create_and_start(mine, r + 1);
    for (sum_of_one& one : all) one.expect(3);
    std::uint64_t before = 0;
    for (int k = 0; k < turns; ++k) {
      sum_of_one one;
      one.create_and_start(mine, r + 1);
      one.expect(3);
      if (k == turns / 2) before = status_of_process("VmRSS");
    }
    EXPECT_LT(status_of_process("VmRSS"), before + 1024);
  });
}

TEST(nonblocking_creates, are_asked_for_by_0_or_1) {
  const world_of_threads one(1);
  EXPECT_EQ(lsched_world_set(nullptr, LSCHED_NONBLOCKING, 1), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_world_set(one.at(0), LSCHED_NONBLOCKING, 2), LSCHED_ERR_ARGUMENT);
  diagnostic why;
  EXPECT_EQ(lsched_create_wait(nullptr, 0, &why), LSCHED_ERR_ARGUMENT);
}

}  // namespace
}  // namespace lsched::testing
