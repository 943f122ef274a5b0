// Tests of rounds that have their own buffers and counts. Several rounds are in flight at the same time.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <latch>
#include <vector>

#include "tests/support/list_programs.h"
#include "tests/support/sampling.h"
#include "tests/support/seeded_programs.h"
#include "tests/support/thread_ranks.h"

namespace lsched::testing {
namespace {

TEST(counts_of_a_round, reach_whoever_does_not_know_them_among_threads) {
  run_as_threads(perform_list_program, 1, full() ? 4000 : few_seeds(120));
}
TEST(counts_of_a_round, reach_whoever_does_not_know_them_among_processes) {
  run_as_processes(perform_list_program, 1, full() ? 400 : 12);
}

// If ranks are not permitted to read each other's memory, long messages are copied through staging memory, which grows
// when counts grow.
TEST(counts_of_a_round, reach_processes_that_cannot_be_read) {
  setenv("LSCHED_READ_PEERS", "no", 1);
  run_as_processes(perform_list_program, 1001, full() ? 1200 : 1006);
  unsetenv("LSCHED_READ_PEERS");
}

/// A collective in which each rank exchanges one element with each rank.
struct exchange {
  explicit exchange(lsched_world* world, std::uint64_t capacity = LSCHED_ANY_COUNT, std::int32_t depth = 1)
      : ranks(static_cast<std::size_t>(lsched_size(world))) {
    const lsched_collective_desc desc{.struct_size = sizeof desc,
                                      .collective = "alltoallv",
                                      .dtype = LSCHED_I32,
                                      .capacity = capacity,
                                      .depth = depth};
    created = lsched_collective_create(world, &desc, &schedule, &why);
  }
  ~exchange() { EXPECT_EQ(lsched_schedule_destroy(schedule, k_limit_ns, &why), LSCHED_OK) << why.text; }
  exchange(const exchange&) = delete;
  exchange& operator=(const exchange&) = delete;

  lsched_status start() {
    const lsched_counts all{.struct_size = sizeof all, .send_counts = sends.data(), .recv_counts = receives.data()};
    const void* const from = input.data();
    void* const to = output.data();
    return lsched_start_with(schedule, &from, &to, &all, &ticket);
  }
  lsched_status wait() { return lsched_wait(ticket, k_limit_ns, &why); }

  std::size_t ranks;
  diagnostic why;
  lsched_schedule* schedule = nullptr;
  lsched_status created{};
  std::vector<std::uint64_t> sends = std::vector<std::uint64_t>(ranks, 1);
  std::vector<std::uint64_t> receives = std::vector<std::uint64_t>(ranks, 1);
  std::vector<std::int32_t> input = std::vector<std::int32_t>(4 * ranks, 7);
  std::vector<std::int32_t> output = std::vector<std::int32_t>(4 * ranks);
  lsched_ticket ticket{};
};

TEST(counts_of_a_round, that_are_wrong_start_nothing) {
  as_ranks(3, [](lsched_world* mine, auto) {
    exchange some(mine, 3);
    ASSERT_EQ(some.created, LSCHED_OK) << some.why.text;
    some.sends[1] = 4;
    EXPECT_EQ(some.start(), LSCHED_ERR_BOUNDS);
    some.sends[1] = 1, some.receives[2] = 4;
    EXPECT_EQ(some.start(), LSCHED_ERR_BOUNDS);
    some.receives[2] = 1;
    lsched_counts all{.struct_size = sizeof all, .send_counts = some.sends.data()};
    const void* const from = some.input.data();
    void* const to = some.output.data();
    EXPECT_EQ(lsched_start_with(some.schedule, &from, &to, &all, &some.ticket), LSCHED_ERR_ARGUMENT);
    all.recv_counts = some.receives.data();
    const void* const nothing = nullptr;
    EXPECT_EQ(lsched_start_with(some.schedule, &nothing, &to, &all, &some.ticket), LSCHED_ERR_ARGUMENT);
    EXPECT_EQ(lsched_start_with(some.schedule, nullptr, nullptr, &all, &some.ticket), LSCHED_ERR_ARGUMENT);
    EXPECT_EQ(lsched_start_with(some.schedule, &from, &to, nullptr, &some.ticket), LSCHED_ERR_ARGUMENT);
    EXPECT_EQ(lsched_start_with(some.schedule, &from, &to, &all, nullptr), LSCHED_ERR_ARGUMENT);
    EXPECT_EQ(lsched_start(some.schedule, &some.ticket), LSCHED_ERR_STATE);
    EXPECT_EQ(lsched_run(some.schedule, k_limit_ns, &some.why), LSCHED_ERR_STATE);
    EXPECT_TRUE(some.why.says("lsched_start_with")) << some.why.text;
    EXPECT_EQ(lsched_rebind(some.schedule, &from, &to), LSCHED_ERR_UNSUPPORTED);
    EXPECT_EQ(some.start(), LSCHED_OK);
    EXPECT_EQ(some.wait(), LSCHED_OK) << some.why.text;
    EXPECT_EQ(some.output[2], 7);
  });
}

TEST(counts_of_a_round, that_find_no_room_end_it_at_the_receiver_which_names_the_sender) {
  for (const std::uint64_t length : {2u, 5000u, 100'000u}) {
    // After a cancel, starts on other ranks fail. Therefore a rank cancels only after all three ranks have started and
    // rank 2 has received its error.
    std::latch may_cancel(4);
    as_ranks(3, [&may_cancel, length](lsched_world* mine, std::int32_t r) {
      exchange some(mine);
      ASSERT_EQ(some.created, LSCHED_OK) << some.why.text;
      if (r == 1) some.sends[2] = length, some.input.resize(length + 2);
      EXPECT_EQ(some.start(), LSCHED_OK);
      may_cancel.count_down();
      if (r == 2) {
        const lsched_status answer = some.wait();
        may_cancel.count_down();
        EXPECT_EQ(answer, LSCHED_ERR_BOUNDS);
        EXPECT_EQ(some.why.rank, 1) << some.why.text;
        EXPECT_TRUE(some.why.says("elements that rank 1 has sent do not fit")) << some.why.text;
        EXPECT_EQ(some.output[3], 0);
      }
      may_cancel.wait();
      EXPECT_EQ(lsched_cancel(some.schedule, &some.why), LSCHED_OK) << some.why.text;
    });
  }
}

// Each rank may choose whether it works in place. In place, the root's own block is not moved.
TEST(counts_of_a_round, may_be_in_place_at_any_rank_by_itself) {
  as_ranks(3, [](lsched_world* mine, std::int32_t r) {
    diagnostic why;
    const lsched_collective_desc desc{.struct_size = sizeof desc,
                                      .collective = "gatherv",
                                      .dtype = LSCHED_I32,
                                      .root = 1,
                                      .capacity = LSCHED_ANY_COUNT};
    lsched_schedule* schedule = nullptr;
    ASSERT_EQ(lsched_collective_create(mine, &desc, &schedule, &why), LSCHED_OK) << why.text;
    std::vector<std::int32_t> all{-1, -1, 11, 12, -1, -1}, own{10 * r + 1, 10 * r + 2};
    const std::vector<std::uint64_t> one{2}, each{2, 2, 2};
    const lsched_counts counts{
        .struct_size = sizeof counts, .send_counts = one.data(), .recv_counts = r == 1 ? each.data() : nullptr};
    const void* const from = r == 1 ? all.data() + 2 : own.data();
    const void* const beside = all.data() + 3;
    void* const to = all.data();
    lsched_ticket ticket{};
    if (r == 1) {
      EXPECT_EQ(lsched_start_with(schedule, &beside, &to, &counts, &ticket), LSCHED_ERR_ARGUMENT);
    }
    ASSERT_EQ(lsched_start_with(schedule, &from, &to, &counts, &ticket), LSCHED_OK);
    EXPECT_EQ(lsched_wait(ticket, k_limit_ns, &why), LSCHED_OK) << why.text;
    if (r == 1) {
      EXPECT_EQ(all, (std::vector<std::int32_t>{1, 2, 11, 12, 21, 22}));
    }
    EXPECT_EQ(lsched_schedule_destroy(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
  });
}

TEST(counts_of_a_round, of_an_exchange_lie_apart_and_own_blocks_have_room) {
  as_ranks(2, [](lsched_world* mine, std::int32_t r) {
    exchange some(mine);
    ASSERT_EQ(some.created, LSCHED_OK) << some.why.text;
    const lsched_counts all{
        .struct_size = sizeof all, .send_counts = some.sends.data(), .recv_counts = some.receives.data()};
    const void* const from = some.input.data();
    void* const within = some.input.data() + 1;
    EXPECT_EQ(lsched_start_with(some.schedule, &from, &within, &all, &some.ticket), LSCHED_ERR_ARGUMENT);
    some.sends[static_cast<std::size_t>(r)] = 2;
    EXPECT_EQ(some.start(), LSCHED_ERR_BOUNDS);
    some.sends[static_cast<std::size_t>(r)] = 1;
    EXPECT_EQ(some.start(), LSCHED_OK);
    EXPECT_EQ(some.wait(), LSCHED_OK) << some.why.text;
  });
}

TEST(rounds_in_flight, are_as_many_as_the_depth_and_wait_for_each_other_in_no_order) {
  constexpr std::int32_t k_depth = 4;
  for (const std::int32_t ranks : {1, 2, 3, 5}) {
    as_ranks(ranks, [ranks](lsched_world* mine, std::int32_t r) {
      diagnostic why;
      std::array<std::int64_t, k_depth> values{}, sums{};
      const lsched_collective_desc desc{.struct_size = sizeof desc,
                                        .collective = "allreduce",
                                        .input = values.data(),
                                        .output = sums.data(),
                                        .count = 1,
                                        .dtype = LSCHED_I64,
                                        .reduction = LSCHED_SUM,
                                        .depth = k_depth};
      lsched_schedule* schedule = nullptr;
      ASSERT_EQ(lsched_collective_create(mine, &desc, &schedule, &why), LSCHED_OK) << why.text;
      for (int turn = 0; turn < 200; ++turn) {
        std::array<lsched_ticket, k_depth> tickets{};
        for (std::size_t i = 0; i < k_depth; ++i) {
          values[i] = r + turn * 10 + static_cast<std::int64_t>(i);
          const void* const from = &values[i];
          void* const to = &sums[i];
          ASSERT_EQ(lsched_start_with(schedule, &from, &to, nullptr, &tickets[i]), LSCHED_OK);
          EXPECT_EQ(tickets[i].round, static_cast<std::uint64_t>(turn) * k_depth + i + 1);
        }
        for (const std::size_t i : {2u, 0u, 3u, 1u}) {
          EXPECT_EQ(lsched_wait(tickets[i], k_limit_ns, &why), LSCHED_OK) << why.text;
          EXPECT_EQ(sums[i], ranks * (ranks - 1) / 2 + ranks * (turn * 10 + static_cast<std::int64_t>(i)));
        }
      }
      EXPECT_EQ(lsched_schedule_destroy(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
    });
  }
}

TEST(rounds_in_flight, of_another_depth_or_capacity_are_another_schedule) {
  as_ranks(2, [](lsched_world* mine, std::int32_t r) {
    EXPECT_EQ(exchange(mine, LSCHED_ANY_COUNT, 1 + r).created, LSCHED_ERR_MISMATCH);
    EXPECT_EQ(exchange(mine, 10 + static_cast<std::uint64_t>(r)).created, LSCHED_ERR_MISMATCH);
    EXPECT_EQ(exchange(mine, 10, 9).created, LSCHED_ERR_ARGUMENT);
    EXPECT_EQ(exchange(mine, 10, -1).created, LSCHED_ERR_ARGUMENT);
    EXPECT_EQ(exchange(mine, std::uint64_t{1} << 33).created, LSCHED_ERR_ARGUMENT);
    EXPECT_EQ(exchange(mine).created, LSCHED_OK);
  });
}

TEST(rounds_in_flight, keep_a_schedule_from_being_destroyed_and_end_with_a_cancellation) {
  as_ranks(2, [](lsched_world* mine, std::int32_t r) {
    exchange some(mine, LSCHED_ANY_COUNT, 3);
    ASSERT_EQ(some.created, LSCHED_OK) << some.why.text;
    if (r == 0) {
      ASSERT_EQ(some.start(), LSCHED_OK);
      const lsched_ticket first = some.ticket;
      ASSERT_EQ(some.start(), LSCHED_OK);
      ASSERT_EQ(some.start(), LSCHED_OK);
      EXPECT_EQ(some.start(), LSCHED_ERR_STATE);  // no slot is free, because the other rank has started no round
      EXPECT_EQ(lsched_schedule_destroy(some.schedule, k_limit_ns, &some.why), LSCHED_ERR_BUSY);
      EXPECT_EQ(lsched_test(first), LSCHED_PENDING);
      EXPECT_EQ(lsched_cancel(some.schedule, &some.why), LSCHED_OK) << some.why.text;
      EXPECT_EQ(lsched_wait(first, k_limit_ns, &some.why), LSCHED_ERR_CANCELLED);
      EXPECT_EQ(some.wait(), LSCHED_ERR_CANCELLED);
      EXPECT_EQ(some.start(), LSCHED_ERR_CANCELLED);
    }
  });
}

}  // namespace
}  // namespace lsched::testing
