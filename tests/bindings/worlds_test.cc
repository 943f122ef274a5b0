// Tests of worlds that are split from other worlds: random programs, and independence of the worlds.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <latch>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "libsched/transport/shm/shm_segment.h"
#include "tests/support/barrier.h"
#include "tests/support/child_ranks.h"
#include "tests/support/launched_rank.h"
#include "tests/support/open_threads.h"
#include "tests/support/process_ranks.h"
#include "tests/support/process_status.h"
#include "tests/support/sampling.h"
#include "tests/support/thread_ranks.h"
#include "tests/support/world_programs.h"

namespace lsched::testing {
namespace {

void run_as_threads(std::uint64_t first, std::uint64_t last) {
  for (std::uint64_t seed = first; seed <= last && !::testing::Test::HasFailure(); ++seed) {
    const auto ranks = static_cast<std::int32_t>(2 + seed % 8);
    std::vector<lsched_world*> opened(static_cast<std::size_t>(ranks));
    const lsched_config config = test_config();
    diagnostic why;
    ASSERT_EQ(open_threads(ranks, &config, opened.data(), &why), LSCHED_OK) << why.text;
    std::vector<std::jthread> threads;
    for (std::int32_t r = 0; r < ranks; ++r)
      threads.emplace_back([&, r, seed] {
        EXPECT_EQ(perform_random_program(seed, opened[static_cast<std::size_t>(r)]), "")
            << "seed " << seed << ", " << ranks << " ranks";
      });
  }
}

void run_as_processes(std::uint64_t first, std::uint64_t last) {
  for (std::uint64_t seed = first; seed <= last && !::testing::Test::HasFailure(); ++seed) {
    const auto ranks = static_cast<std::int32_t>(2 + seed % 8);
    const auto life = [&]() -> int {
      lsched_config config = test_config();
      lsched_world* opened = nullptr;
      diagnostic why;
      if (lsched_world_open(&config, &opened, &why) != LSCHED_OK) return 2;
      const std::string wrong = perform_random_program(seed, opened);
      if (!wrong.empty()) std::fprintf(stderr, "%s\n", wrong.c_str());
      return wrong.empty() ? 0 : 1;
    };
    EXPECT_EQ(run_processes(ranks, life, std::chrono::seconds(60)), "") << "seed " << seed << ", " << ranks << " ranks";
  }
}

TEST(worlds, random_programs_of_threads_compute_what_they_promise) { run_as_threads(1, full() ? 1000 : few_seeds(24)); }
TEST(worlds, random_programs_of_processes_compute_what_they_promise) { run_as_processes(1, full() ? 200 : 6); }

// --- independence of worlds --------------------------------------------------------------------------------

TEST(worlds, are_ordered_by_key_and_then_by_rank) {
  world_of_threads(5).each([](lsched_world* mine, std::int32_t r) {
    lsched_world* made = nullptr;
    diagnostic why;
    ASSERT_EQ(lsched_split(mine, r % 2, r == 0 ? 7 : 3, &made, &why), LSCHED_OK) << why.text;
    // The keys order the ranks of colour 0 as 2, 4, 0, and the ranks of colour 1 as 1, 3.
    constexpr std::int32_t expected[] = {2, 0, 0, 1, 1};
    EXPECT_EQ(lsched_rank(made), expected[r]);
    EXPECT_EQ(lsched_size(made), r % 2 == 0 ? 3 : 2);
    EXPECT_EQ(lsched_rank_in(mine, 0, made), r % 2 == 0 ? 2 : -1);
    EXPECT_EQ(lsched_rank_in(made, 0, mine), r % 2 == 0 ? 2 : 1);
    EXPECT_EQ(sum_over(made, lsched_rank(made) + 1), r % 2 == 0 ? 6 : 3);
    EXPECT_EQ(lsched_world_close(made), LSCHED_OK);
  });
}

TEST(worlds, of_a_negative_colour_are_none) {
  world_of_threads(3).each([](lsched_world* mine, std::int32_t r) {
    lsched_world* made = mine;
    diagnostic why;
    ASSERT_EQ(lsched_split(mine, r == 1 ? -5 : 0, 0, &made, &why), LSCHED_OK) << why.text;
    EXPECT_EQ(made == nullptr, r == 1);
    if (made != nullptr) {
      EXPECT_EQ(sum_over(made, lsched_rank(made) + 1), 3);
    }
    EXPECT_EQ(lsched_world_close(made), LSCHED_OK);
  });
}

TEST(worlds, that_disagree_leave_the_others_alone) {
  world_of_threads(4).each([](lsched_world* mine, std::int32_t r) {
    lsched_world *left = nullptr, *all = nullptr;
    diagnostic why;
    ASSERT_EQ(lsched_split(mine, r / 2, 0, &left, &why), LSCHED_OK) << why.text;
    ASSERT_EQ(lsched_split(mine, 0, -r, &all, &why), LSCHED_OK) << why.text;
    lsched_schedule* refused = nullptr;
    std::int64_t value = 0;
    const lsched_collective_desc desc{.struct_size = sizeof desc,
                                      .collective = "allreduce",
                                      .input = &value,
                                      .output = &value,
                                      .count = 1,
                                      .dtype = LSCHED_I64,
                                      .reduction = r == 0 ? LSCHED_MAX : LSCHED_SUM};
    const lsched_status answer = lsched_collective_create(left, &desc, &refused, &why);
    EXPECT_EQ(answer, r / 2 == 0 ? LSCHED_ERR_MISMATCH : LSCHED_OK) << why.text;
    if (r / 2 == 0) {
      EXPECT_EQ(why.rank, 1 - r % 2) << why.text;  // the number of the rank in the split world
    } else {
      EXPECT_EQ(lsched_schedule_destroy(refused, k_limit_ns, &why), LSCHED_OK);
    }
    EXPECT_EQ(sum_over(all, lsched_rank(all) + 1), 10);
    EXPECT_EQ(sum_over(left, lsched_rank(left) + 1), 3);
    EXPECT_EQ(lsched_world_close(left), LSCHED_OK);
    EXPECT_EQ(lsched_world_close(all), LSCHED_OK);
  });
}

TEST(worlds, a_commit_that_times_out_does_so_for_all_and_the_world_goes_on) {
  lsched_config config = test_config();
  config.commit_timeout_ns = 1'000'000'000;  // calls that succeed take less time, even on a busy machine
  const world_of_threads ranks(3, config);
  for (const std::int32_t late : {2, 0, 1}) {
    std::latch others(2);  // counts the ranks whose commit has timed out
    std::vector<std::jthread> threads;
    for (std::int32_t r = 0; r < 3; ++r)
      threads.emplace_back([&, r] {
        diagnostic why;
        lsched_schedule* barrier = nullptr;
        if (r == late) others.wait();
        EXPECT_EQ(create_barrier(ranks.at(r), &barrier, &why), LSCHED_ERR_TIMEOUT) << "rank " << r;
        EXPECT_TRUE(why.says("rank " + std::to_string(late))) << why.text;
        EXPECT_EQ(why.rank, late);
        if (r != late) others.count_down();
      });
    threads.clear();
    ranks.each([](lsched_world* mine, std::int32_t) { EXPECT_EQ(sum_over(mine, lsched_rank(mine) + 1), 6); });
  }
}

TEST(worlds, that_were_closed_are_missed_by_their_members_alone) {
  world_of_threads(3).each([](lsched_world* mine, std::int32_t r) {
    lsched_world* made = nullptr;
    diagnostic why;
    ASSERT_EQ(lsched_split(mine, 0, 0, &made, &why), LSCHED_OK) << why.text;
    if (r == 1) {
      EXPECT_EQ(lsched_world_close(made), LSCHED_OK);
    } else {
      lsched_schedule* barrier = nullptr;
      EXPECT_EQ(create_barrier(made, &barrier, &why), LSCHED_ERR_PEER) << why.text;
      EXPECT_EQ(why.rank, 1) << why.text;
      EXPECT_EQ(lsched_world_close(made), LSCHED_OK);
    }
    EXPECT_EQ(sum_over(mine, lsched_rank(mine) + 1), 6);
  });
}

// Measures the memory of many worlds by VmRSS, which includes shared pages.
TEST(worlds, cost_little_memory_and_no_thread) {
  constexpr std::size_t k_worlds = 1000;
  const world_of_threads opened(4);
  std::vector<std::vector<lsched_world*>> all(4, std::vector<lsched_world*>(k_worlds));
  const std::uint64_t threads = status_of_process("Threads"), memory = status_of_process("VmRSS");
  opened.each([&](lsched_world* mine, std::int32_t r) {
    diagnostic why;
    for (lsched_world*& one : all[static_cast<std::size_t>(r)])
      ASSERT_EQ(lsched_split(mine, 0, 0, &one, &why), LSCHED_OK) << why.text;
  });
  EXPECT_EQ(status_of_process("Threads"), threads);
  const double each = static_cast<double>(status_of_process("VmRSS") - memory) / (4 * k_worlds);
  EXPECT_LT(each, 64) << "KiB for a world of a rank";
  RecordProperty("KiB", std::to_string(each));
  opened.each([&](lsched_world*, std::int32_t r) {
    for (lsched_world* one : all[static_cast<std::size_t>(r)]) {
      if (one == all[static_cast<std::size_t>(r)].back()) {
        EXPECT_EQ(sum_over(one, lsched_rank(one) + 1), 10);
      }
      EXPECT_EQ(lsched_world_close(one), LSCHED_OK);
    }
  });
}

/// Runs rounds of the barrier until a round fails. Returns the status of that round, and the rank that its error names.
std::pair<lsched_status, std::int32_t> fail_in(lsched_world* world, lsched_schedule* barrier) {
  diagnostic why;
  lsched_status answer = LSCHED_OK;
  while (answer == LSCHED_OK) answer = lsched_run(barrier, k_limit_ns, &why);
  EXPECT_LT(why.rank, lsched_size(world));
  return {answer, why.rank};
}

// The main function of each of four ranks. Rank 3 is killed, and later rank 1. One split world has the ranks 2, 1, 0,
// in this order, and the other has the ranks 3, 2. The errors of a world must use the ranks of that world.
int outlive(lsched_world* opened) {
  const std::int32_t self = lsched_rank(opened);
  diagnostic why;
  lsched_world *without_3 = nullptr, *of_two = nullptr;
  if (lsched_split(opened, self == 3 ? -1 : 0, -self, &without_3, &why) != LSCHED_OK) return 10;
  if (lsched_split(opened, self < 2 ? -1 : 0, -self, &of_two, &why) != LSCHED_OK) return 11;
  std::map<lsched_world*, lsched_schedule*> barriers;
  for (lsched_world* one : {opened, without_3, of_two})
    if (one != nullptr && create_barrier(one, &barriers[one], &why) != LSCHED_OK) return 12;
  if (self == 3) raise(SIGKILL);
  const std::pair of_3(LSCHED_ERR_PEER, 3), of_3_of_two(LSCHED_ERR_PEER, 0), of_1(LSCHED_ERR_PEER, 1);
  if (fail_in(opened, barriers[opened]) != of_3) return 13;
  if (of_two != nullptr && fail_in(of_two, barriers[of_two]) != of_3_of_two) return 14;
  for (int round = 0; round < 100; ++round)
    if (lsched_run(barriers[without_3], k_limit_ns, &why) != LSCHED_OK) return 15;
  if (sum_over(without_3, lsched_rank(without_3) + 1) != 6) return 16;
  lsched_world* again = nullptr;
  if (lsched_split(without_3, 0, 0, &again, &why) != LSCHED_OK) return 17;
  if (lsched_split(opened, 0, 0, &of_two, &why) != LSCHED_ERR_PEER || why.rank != 3) return 18;
  if (self == 1) raise(SIGKILL);
  if (fail_in(without_3, barriers[without_3]) != of_1) return 19;
  lsched_schedule* none = nullptr;
  if (create_barrier(again, &none, &why) != LSCHED_ERR_PEER || why.rank != 1) return 20;
  if (create_barrier(opened, &none, &why) != LSCHED_ERR_PEER || why.rank != 3) return 21;
  return 0;
}

TEST(worlds, hear_of_the_deaths_of_their_own_members_alone) {
  for (int k = 0; k < (full() ? 100 : 5); ++k) {
    const auto segment = *shm_segment::create(4, 16 << 20);
    child_ranks children(4, [&](rank self) {
      be_launched(*segment, self);
      lsched_world* opened = nullptr;
      if (lsched_world_open(nullptr, &opened, nullptr) != LSCHED_OK) return 9;
      return outlive(opened);
    });
    EXPECT_EQ(children.wait(), "rank 1 was ended by signal 9; rank 3 was ended by signal 9; ");
  }
}

// --- worlds of listed ranks ---------------------------------------------------------------------------------

TEST(worlds, of_listed_ranks_are_made_by_these_alone) {
  world_of_threads(5).each([](lsched_world* mine, std::int32_t r) {
    diagnostic why;
    constexpr std::int32_t odd[] = {3, 1}, all[] = {4, 3, 2, 1, 0};
    lsched_world *of_two = nullptr, *of_all = nullptr, *alone = nullptr;
    for (int k = 0; k < 20; ++k) {
      if (r % 2 == 1) {
        ASSERT_EQ(lsched_split_ranks(mine, odd, 2, 7, &of_two, &why), LSCHED_OK) << why.text;
        EXPECT_EQ(lsched_rank(of_two), r == 3 ? 0 : 1);
        EXPECT_EQ(sum_over(of_two, lsched_rank(of_two) + 1), 3);
        EXPECT_EQ(lsched_world_close(of_two), LSCHED_OK);
      }
      ASSERT_EQ(lsched_split_ranks(mine, all, 5, 7, &of_all, &why), LSCHED_OK) << why.text;
      EXPECT_EQ(lsched_rank(of_all), 4 - r);
      EXPECT_EQ(sum_over(of_all, lsched_rank(of_all) + 1), 15);
      EXPECT_EQ(lsched_world_close(of_all), LSCHED_OK);
      ASSERT_EQ(lsched_split_ranks(mine, &r, 1, 7, &alone, &why), LSCHED_OK) << why.text;
      EXPECT_EQ(sum_over(alone, lsched_rank(alone) + 1), 1);
      EXPECT_EQ(lsched_world_close(alone), LSCHED_OK);
    }
  });
}

TEST(worlds, of_the_same_ranks_are_told_apart_by_tags) {
  world_of_threads(3).each([](lsched_world* mine, std::int32_t r) {
    constexpr std::int32_t all[] = {0, 1, 2};
    std::vector<lsched_world*> made(12);
    {
      std::vector<std::jthread> threads;  // more concurrent calls than a rank has places for offers
      for (std::size_t tag = 0; tag < made.size(); ++tag)
        threads.emplace_back([&, tag] {
          diagnostic why;
          EXPECT_EQ(lsched_split_ranks(mine, all, 3, static_cast<std::int32_t>(tag), &made[tag], &why), LSCHED_OK)
              << why.text;
        });
    }
    for (std::size_t tag = 0; tag < made.size(); ++tag) {
      std::int64_t value = r == 0 ? static_cast<std::int64_t>(tag) : -1;
      const lsched_collective_desc desc{.struct_size = sizeof desc,
                                        .collective = "bcast",
                                        .input = &value,
                                        .output = &value,
                                        .count = 1,
                                        .dtype = LSCHED_I64};
      lsched_schedule* schedule = nullptr;
      diagnostic why;
      ASSERT_EQ(lsched_collective_create(made[tag], &desc, &schedule, &why), LSCHED_OK) << why.text;
      EXPECT_EQ(lsched_run(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
      EXPECT_EQ(value, static_cast<std::int64_t>(tag));
      EXPECT_EQ(lsched_schedule_destroy(schedule, k_limit_ns, &why), LSCHED_OK);
      EXPECT_EQ(lsched_world_close(made[tag]), LSCHED_OK);
    }
  });
}

TEST(worlds, of_listed_ranks_name_who_does_not_call_and_may_be_made_later) {
  lsched_config config = test_config();
  config.commit_timeout_ns = 1'000'000'000;  // calls that succeed take less time, even on a busy machine
  const world_of_threads ranks(3, config);
  constexpr std::int32_t all[] = {2, 0, 1};
  for (const std::int32_t late : {2, 0, 1}) {
    std::latch others(2);
    std::vector<std::jthread> threads;
    for (std::int32_t r = 0; r < 3; ++r)
      threads.emplace_back([&, r] {
        diagnostic why;
        lsched_world* made = nullptr;
        if (r == late) return others.wait();
        EXPECT_EQ(lsched_split_ranks(ranks.at(r), all, 3, 0, &made, &why), LSCHED_ERR_TIMEOUT) << "rank " << r;
        EXPECT_EQ(why.rank, late) << why.text;
        EXPECT_TRUE(why.says("rank " + std::to_string(late) + " did not call")) << why.text;
        EXPECT_EQ(made, nullptr);
        others.count_down();
      });
    threads.clear();
    ranks.each([&](lsched_world* mine, std::int32_t r) {
      diagnostic why;
      lsched_world* made = nullptr;
      ASSERT_EQ(lsched_split_ranks(mine, all, 3, 0, &made, &why), LSCHED_OK) << why.text;
      EXPECT_EQ(lsched_rank_in(mine, r, made), lsched_rank(made));
      EXPECT_EQ(sum_over(made, lsched_rank(made) + 1), 6);
      EXPECT_EQ(lsched_world_close(made), LSCHED_OK);
    });
  }
}

TEST(worlds, of_listed_ranks_hear_of_one_that_is_killed) {
  for (const std::int32_t dies : {0, 1, 2}) {
    const auto segment = *shm_segment::create(3, 16 << 20);
    child_ranks children(3, [&](rank self) {
      be_launched(*segment, self);
      lsched_world *opened = nullptr, *made = nullptr, *of_two = nullptr;
      diagnostic why;
      if (lsched_world_open(nullptr, &opened, nullptr) != LSCHED_OK) return 9;
      lsched_schedule* barrier = nullptr;  // the create returns after all ranks have opened the world
      if (create_barrier(opened, &barrier, &why) != LSCHED_OK) return 13;
      if (self == dies) raise(SIGKILL);
      constexpr std::int32_t all[] = {0, 1, 2};
      if (lsched_split_ranks(opened, all, 3, 1, &made, &why) != LSCHED_ERR_PEER || why.rank != dies) return 10;
      const std::int32_t others[] = {(dies + 1) % 3, (dies + 2) % 3};
      if (lsched_split_ranks(opened, others, 2, 1, &of_two, &why) != LSCHED_OK) return 11;
      return sum_over(of_two, lsched_rank(of_two) + 1) == 3 ? 0 : 12;
    });
    EXPECT_EQ(children.wait(), "rank " + std::to_string(dies) + " was ended by signal 9; ");
  }
}

TEST(worlds, of_listed_ranks_refuse_lists_that_are_none) {
  const world_of_threads two(2);
  lsched_world* made = nullptr;
  diagnostic why;
  const auto refuses = [&](std::vector<std::int32_t> ranks, const char* word) {
    EXPECT_EQ(lsched_split_ranks(two.at(0), ranks.data(), static_cast<std::int32_t>(ranks.size()), 0, &made, &why),
              LSCHED_ERR_ARGUMENT);
    EXPECT_TRUE(why.says(word)) << why.text;
    EXPECT_EQ(made, nullptr);
  };
  refuses({0, 1, 0}, "rank 0 is listed more than once");
  refuses({0, 2}, "not from 0 to 1");
  refuses({-1, 0}, "not from 0 to 1");
  refuses({1}, "is not listed");
  refuses({}, "is not listed");
  EXPECT_EQ(lsched_split_ranks(nullptr, nullptr, 0, 0, &made, &why), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_split_ranks(two.at(0), nullptr, 1, 0, &made, &why), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_split_ranks(two.at(0), nullptr, 0, 0, nullptr, &why), LSCHED_ERR_ARGUMENT);
}

TEST(worlds, refuse_bad_arguments) {
  diagnostic why;
  lsched_world* made = nullptr;
  EXPECT_EQ(lsched_split(nullptr, 0, 0, &made, &why), LSCHED_ERR_ARGUMENT);
  EXPECT_TRUE(why.says("null")) << why.text;
  const world_of_threads one(1), other(1);
  EXPECT_EQ(lsched_split(one.at(0), 0, 0, nullptr, &why), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_rank_in(one.at(0), 0, other.at(0)), -1);
  EXPECT_EQ(lsched_rank_in(one.at(0), 1, one.at(0)), -1);
  EXPECT_EQ(lsched_rank_in(nullptr, 0, one.at(0)), -1);
  EXPECT_EQ(lsched_rank_in(one.at(0), 0, one.at(0)), 0);
}

}  // namespace
}  // namespace lsched::testing
