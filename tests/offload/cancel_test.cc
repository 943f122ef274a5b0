// Tests of schedules that are cancelled (docs/reference/cancel.md). In some tests ranks are threads, so that the
// address sanitizer detects accesses to freed memory. In other tests ranks are processes. These processes reuse the
// memory and check that no other rank accesses it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "bindings/cpp/lsched.hpp"
#include "tests/support/cancel_trials.h"
#include "tests/support/cpp_ranks.h"
#include "tests/support/shared_object.h"
#include "tests/support/wait_until.h"

namespace {

using namespace std::chrono_literals;
using lsched::testing::trial_end;

constexpr std::uint64_t k_most_trials = 2000;
/// The outcomes of all trials, indexed by trial and rank, in memory that the processes share.
struct all_ends {
  std::atomic<trial_end> of[k_most_trials][8];
};

using way_to_run = std::function<void(std::int32_t ranks, const std::function<void(lsched::world&)>& body)>;

void try_worlds(std::uint64_t trials, const way_to_run& run) {
  std::array<std::uint64_t, 4> ends{};
  for (const std::int32_t ranks : {3, 5, 6, 7, 2, 4}) {
    const lsched::testing::shared_object<all_ends> all;
    run(ranks, [&](lsched::world& mine) {
      lsched::testing::run_cancel_trials(
          mine, trials, SIZE_MAX,
          {[&](std::uint64_t trial, trial_end mine_is) { all->of[trial][mine.rank()] = mine_is; },
           [&](std::uint64_t trial, std::int32_t other) { return all->of[trial][other].load(); }});
    });
    for (std::uint64_t i = 0; i < trials; ++i)
      for (std::int32_t r = 0; r < ranks; ++r) ++ends[static_cast<std::size_t>(all->of[i][r].load())];
  }
  for (const trial_end one : {trial_end::finished, trial_end::timed_out, trial_end::was_told}) {
    EXPECT_GT(ends[static_cast<std::size_t>(one)], trials / 4) << "the trials do not have all outcomes";
    ::testing::Test::RecordProperty("end " + std::to_string(static_cast<int>(one)),
                                    std::to_string(ends[static_cast<std::size_t>(one)]));
  }
}

void as_threads(std::int32_t ranks, const std::function<void(lsched::world&)>& body) {
  lsched::testing::as_ranks(ranks, body);
}

void as_processes(std::int32_t ranks, const std::function<void(lsched::world&)>& body) {
  lsched::testing::as_processes(ranks, body, 1000s);
}

TEST(cancel, unwinding_leaves_nothing_behind) { try_worlds(40, as_threads); }
TEST(cancel_soak, unwinding_leaves_nothing_behind) { try_worlds(k_most_trials, as_threads); }
TEST(cancel, processes_that_unwind_leave_nothing_behind) { try_worlds(20, as_processes); }
TEST(cancel_soak, processes_that_unwind_leave_nothing_behind) { try_worlds(k_most_trials, as_processes); }

// --- one by one --------------------------------------------------------------------------------------------------

TEST(cancel, names_who_has_cancelled_and_keeps_what_was_finished) {
  lsched::testing::as_ranks(3, [](lsched::world& mine) {
    const std::vector<double> input(5000, mine.rank() + 1.0);
    std::vector<double> output(5000);
    lsched::schedule sum = mine.allreduce<double>(input, output);
    lsched::schedule barrier = mine.barrier();
    const lsched::ticket first = sum.start();
    first.wait(20s);
    barrier.run(20s);
    if (mine.rank() == 1) sum.cancel();
    barrier.run(20s);
    first.wait(20s);  // a round that had finished before the cancel is still finished
    EXPECT_EQ(output, std::vector<double>(5000, 6.0));
    try {
      sum.run(20s);
      ADD_FAILURE() << "a cancelled schedule runs";
    } catch (const lsched::error& why) {
      EXPECT_EQ(why.status(), LSCHED_ERR_CANCELLED);
      EXPECT_EQ(why.diagnostic().rank, 1);
      EXPECT_NE(std::string(why.what()).find("rank 1 has cancelled"), std::string::npos) << why.what();
    }
    sum.cancel();  // a second cancel has no effect
    sum.close();
    barrier.run(20s);
    barrier.close();
  });
}

TEST(cancel, ends_waits_in_other_threads) {
  lsched::testing::as_ranks(2, [](lsched::world& mine) {
    std::vector<double> data(10);
    lsched::schedule sum = mine.allreduce<double>(data);
    lsched::schedule barrier = mine.barrier();
    if (mine.rank() == 0) {
      const lsched::ticket never = sum.start();
      std::atomic<bool> has_ended{false};
      std::jthread waiter([&] {
        EXPECT_THROW(never.wait(20s), lsched::error);
        has_ended = true;
      });
      EXPECT_FALSE(lsched::testing::wait_until([&] { return has_ended.load(); }, 20ms));
      sum.cancel();
    }
    barrier.run(20s);
    sum.close();
    barrier.close();
  });
}

TEST(cancel, gives_pending_offers_back) {
  lsched::testing::as_ranks(3, [](lsched::world& mine) {
    auto sum = mine.partial<double>(4, {.activation = "full"});
    lsched::schedule barrier = mine.barrier();
    const std::vector<double> ones(4, 1.0);
    if (mine.rank() != 2) (void)sum.offer(ones);
    barrier.run(20s);  // after this barrier, the engine has captured the first offer
    if (mine.rank() != 2) (void)sum.offer(ones);
    barrier.run(20s);
    if (mine.rank() == 0) sum.cancel();
    barrier.run(20s);
    EXPECT_EQ(sum.withdraw(), mine.rank() == 2 ? 0u : 1u);  // only the second offer was pending
    sum.close(1s);
    barrier.close();
  });
}

// In a ring, a rank waits for its neighbour, and the neighbour waits for the next rank. The error names the rank at the
// end of this chain of waits.
TEST(diagnosis, names_who_has_not_entered_the_round) {
  std::atomic<int> timed_out{0};
  lsched::testing::as_ranks(5, [&](lsched::world& mine) {
    std::vector<double> data(10);
    lsched::schedule ring = mine.allreduce<double>(data, LSCHED_SUM, "ring");
    lsched::schedule barrier = mine.barrier();
    EXPECT_EQ(mine.diagnose(), "");
    if (mine.rank() == 3) {
      EXPECT_TRUE(lsched::testing::wait_until([&] { return timed_out == 4; }));
    } else {
      try {
        ring.run(150ms);
      } catch (const lsched::error& why) {
        EXPECT_EQ(why.diagnostic().rank, 3) << why.what();
        EXPECT_NE(std::string(why.what()).find("not entered by rank 3"), std::string::npos) << why.what();
        EXPECT_NE(mine.diagnose().find("not entered by rank 3"), std::string::npos) << mine.diagnose();
      }
      ++timed_out;
      EXPECT_TRUE(lsched::testing::wait_until([&] { return timed_out == 4; }));
      ring.cancel();
    }
    barrier.run(20s);
    EXPECT_NE(mine.diagnose().find("a rank has cancelled the schedule"), std::string::npos) << mine.diagnose();
    ring.close();
    barrier.close();
  });
}

// Rank 1 runs the two schedules in the opposite order, so that rank 1 alone blocks the other ranks.
TEST(diagnosis, follows_the_chain_through_other_schedules) {
  std::atomic<int> waiting{0};
  lsched::testing::as_ranks(3, [&](lsched::world& mine) {
    std::vector<double> data(10);
    lsched::schedule sum = mine.allreduce<double>(data);
    lsched::schedule barrier = mine.barrier();
    lsched::schedule end = mine.barrier();
    lsched::schedule& first = mine.rank() == 1 ? barrier : sum;
    if (mine.rank() != 2) {
      ++waiting;
      EXPECT_THROW(first.run(400ms), lsched::error);
    } else {
      EXPECT_TRUE(lsched::testing::wait_until([&] { return waiting == 2; }));
      try {
        sum.run(200ms);
        ADD_FAILURE() << "rank 1 is not in the sum";
      } catch (const lsched::error& why) {
        EXPECT_NE(std::string(why.what()).find("not entered by rank 1; rank 1 waits in barrier"), std::string::npos)
            << why.what();
      }
    }
    sum.cancel();
    barrier.cancel();
    end.run(20s);
    sum.close();
    barrier.close();
    end.close();
  });
}

/// A user-defined operation that blocks before it reads its operands. The operation continues when the test sets
/// `goes_on`.
struct slow_reader {
  std::atomic<bool> reads{false}, goes_on{false};

  static void combine(const void* lower, const void* higher, void* target, std::uint64_t count, void* context) {
    auto& mine = *static_cast<slow_reader*>(context);
    mine.reads = true;
    lsched::testing::wait_until([&] { return mine.goes_on.load(); });
    for (std::uint64_t i = 0; i < count; ++i)
      static_cast<double*>(target)[i] = static_cast<const double*>(lower)[i] + static_cast<const double*>(higher)[i];
  }
};

TEST(cancel, waits_for_a_reader_and_names_it) {
  slow_reader slow;
  lsched::testing::as_ranks(2, [&](lsched::world& mine) {
    constexpr std::size_t k_count = 100'000;
    const std::span<double> input = mine.allocate<double>(k_count);
    std::ranges::fill(input, mine.rank() + 1.0);
    std::vector<double> output(k_count);
    const lsched_user_op sum{sizeof(lsched_user_op), slow_reader::combine, &slow, LSCHED_F64, 1, 1};
    lsched_collective_desc desc{};
    desc.collective = "reduce", desc.algorithm = "binomial", desc.root = 1;
    desc.input = input.data(), desc.output = output.data();
    desc.count = k_count, desc.dtype = LSCHED_F64, desc.user_op = &sum;
    lsched::schedule reduce = mine.collective(desc);
    lsched::schedule barrier = mine.barrier();
    if (mine.rank() == 0) {
      const lsched::ticket started = reduce.start();
      EXPECT_TRUE(lsched::testing::wait_until([&] { return slow.reads.load(); }));
      EXPECT_THROW(started.wait(1ms), lsched::error);
      try {
        reduce.cancel();
        ADD_FAILURE() << "no reader was reported";
      } catch (const lsched::error& why) {
        EXPECT_EQ(why.status(), LSCHED_ERR_BUSY);
        EXPECT_EQ(why.diagnostic().rank, 1);
        EXPECT_NE(std::string(why.what()).find("rank 1 still reads this rank's memory"), std::string::npos)
            << why.what();
      }
      EXPECT_THROW(reduce.close(), lsched::error);
      slow.goes_on = true;
      reduce.cancel();
    } else {
      reduce.run(20s);  // this round ends after rank 1 has read all its operands
      barrier.run(20s);
      EXPECT_THROW(reduce.run(20s), lsched::error);
    }
    if (mine.rank() == 0) barrier.run(20s);
    reduce.close();
    barrier.run(20s);
    barrier.close();
    mine.free(input);
  });
}

}  // namespace
