// Schedules that are given up (docs/cancel.md). Ranks are threads, so that the address sanitizer sees every byte that
// is touched after it was given back.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "bindings/cpp/lsched.hpp"
#include "tests/support/cpp_ranks.h"

namespace {

using namespace std::chrono_literals;
using std::chrono::microseconds;

/// How a rank has come out of a trial.
enum class end : std::uint8_t { unknown, finished, timed_out, was_told };

/// Equal on all ranks, by its seed.
struct trial {
  explicit trial(std::uint64_t seed, std::int32_t ranks) : draw(seed) {
    kind = pick(8);
    count = std::array<std::size_t, 6>{1, 7, 900, 1500, 5000, 60'000}[pick(6)];
    late = static_cast<std::int32_t>(pick(static_cast<std::uint64_t>(ranks)));
    delay = microseconds(pick(1500));
    patience = microseconds(pick(1000));
    rounds = 1 + pick(3);
  }
  std::uint64_t pick(std::uint64_t below) { return draw() % below; }
  bool is_partial() const { return kind > 4; }

  std::mt19937_64 draw;
  std::uint64_t kind;
  std::size_t count;
  std::int32_t late;  ///< this rank begins later, by:
  microseconds delay;
  microseconds patience;  ///< of the others with a round
  std::uint64_t rounds;
};

void expect_all(const std::vector<double>& values, double what) {
  for (const double one : values) ASSERT_EQ(one, what);
}

double sum_of_ranks(std::int32_t ranks) { return ranks * (ranks + 1) / 2.0; }

void run_rounds(lsched::world& mine, lsched::schedule run, const trial& how) {
  if (mine.rank() == how.late) std::this_thread::sleep_for(how.delay);
  for (std::uint64_t round = 0; round < how.rounds; ++round) run.run(how.patience);
  run.close();
}

void run_dense(lsched::world& mine, const trial& how, const char* algorithm) {
  const std::vector<double> input(how.count, mine.rank() + 1.0);
  std::vector<double> output(how.count);
  run_rounds(mine, mine.allreduce<double>(input, output, LSCHED_SUM, algorithm), how);
  expect_all(output, sum_of_ranks(mine.size()));
}

void run_adasum(lsched::world& mine, const trial& how) {
  const std::vector<double> input(how.count, 1.0);  // equal vectors: their mean
  std::vector<double> output(how.count);
  run_rounds(mine, mine.adasum<double>(input, output), how);
  for (const double one : output) ASSERT_NEAR(one, 1.0, 1e-9);
}

void run_sparse(lsched::world& mine, const trial& how) {
  const std::vector<double> gradient(how.count, 1.0);
  std::vector<double> update(how.count);
  auto run = mine.sparse<double>(gradient, update, (how.count + 1) / 2);
  if (mine.rank() == how.late) std::this_thread::sleep_for(how.delay);
  for (std::uint64_t round = 0; round < how.rounds; ++round) run.run(how.patience);
  run.close();
}

/// Of a partial sum any ranks may be missing, but each value is a sum of whole contributions.
void run_partial(lsched::world& mine, const trial& how, const lsched::partial_options& options) {
  const std::vector<double> input(how.count, 1.0);
  std::vector<double> output(how.count);
  auto run = mine.partial<double>(how.count, options);
  if (mine.rank() == how.late) std::this_thread::sleep_for(how.delay);
  for (std::uint64_t round = 0; round < how.rounds; ++round) {
    const auto called = run.offer(input);
    const lsched_report got = run.collect(called, output, how.patience);
    if (got.has_result != 0 && options.collective == "allreduce") expect_all(output, static_cast<double>(got.offers));
  }
  run.close(how.patience);
}

void run_kind(lsched::world& mine, const trial& how) {
  switch (how.kind) {
    case 0: return run_dense(mine, how, "ring");
    case 1: return run_dense(mine, how, "recursive_doubling");
    case 2: return run_dense(mine, how, "auto");
    case 3: return run_adasum(mine, how);
    case 4: return run_sparse(mine, how);
    case 5: return run_partial(mine, how, {.activation = "solo"});
    case 6: return run_partial(mine, how, {.activation = "majority", .seed = 3});
    default: return run_partial(mine, how, {.collective = "adasum", .activation = "full"});
  }
}

/// What a rank that was told is told: who.
end come_out(lsched::world& mine, const trial& how, std::int32_t& by) {
  try {
    run_kind(mine, how);
    return end::finished;
  } catch (const lsched::error& why) {
    by = why.diagnostic().rank;
    if (why.status() == LSCHED_ERR_TIMEOUT) return end::timed_out;
    EXPECT_EQ(why.status(), LSCHED_ERR_CANCELLED) << why.what();
    return end::was_told;
  }
}

/// After each trial its memory is used for something else, and another schedule goes on.
void try_often(std::int32_t ranks, std::uint64_t trials, std::array<std::uint64_t, 4>& ends) {
  std::vector<std::array<std::atomic<end>, 8>> came_out(trials);
  std::atomic<std::uint64_t> counts[4]{};
  lsched::testing::as_ranks(ranks, [&](lsched::world& mine) {
    std::vector<double> all_sum(3000);
    lsched::schedule witness = mine.allreduce<double>(all_sum);
    for (std::uint64_t i = 0; i < trials; ++i) {
      const trial how(1000 * i + static_cast<std::uint64_t>(ranks), ranks);
      std::int32_t by = -1;
      const end mine_is = come_out(mine, how, by);
      came_out[i][static_cast<std::size_t>(mine.rank())] = mine_is;
      ++counts[static_cast<std::size_t>(mine_is)];
      const std::vector<double> reused(how.count, 42.0), too(how.count, 43.0);
      std::ranges::fill(all_sum, mine.rank() + 1.0);
      witness.run(20s);
      expect_all(all_sum, sum_of_ranks(ranks));
      expect_all(reused, 42.0);
      expect_all(too, 43.0);
      if (mine_is != end::was_told || (how.is_partial() && by == -1)) continue;  // an offer names nobody
      ASSERT_TRUE(by >= 0 && by < ranks) << "trial " << i;
      ASSERT_EQ(came_out[i][static_cast<std::size_t>(by)].load(), end::timed_out) << "trial " << i << ", rank " << by;
    }
    witness.close();
  });
  for (std::size_t i = 0; i < ends.size(); ++i) ends[i] += counts[i];
}

void try_worlds(std::uint64_t trials) {
  std::array<std::uint64_t, 4> ends{};
  for (const std::int32_t ranks : {3, 5, 6, 7, 2, 4}) try_often(ranks, trials, ends);
  for (const end one : {end::finished, end::timed_out, end::was_told}) {
    EXPECT_GT(ends[static_cast<std::size_t>(one)], trials / 4) << "trials do not come out in all ways";
    ::testing::Test::RecordProperty("end " + std::to_string(static_cast<int>(one)),
                                    std::to_string(ends[static_cast<std::size_t>(one)]));
  }
}

TEST(cancel, unwinding_leaves_nothing_behind) { try_worlds(40); }
TEST(cancel_soak, unwinding_leaves_nothing_behind) { try_worlds(2000); }

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
    first.wait(20s);  // stays finished
    expect_all(output, 6);
    try {
      sum.run(20s);
      ADD_FAILURE() << "a schedule runs that was cancelled";
    } catch (const lsched::error& why) {
      EXPECT_EQ(why.status(), LSCHED_ERR_CANCELLED);
      EXPECT_EQ(why.diagnostic().rank, 1);
      EXPECT_NE(std::string(why.what()).find("rank 1 has cancelled"), std::string::npos) << why.what();
    }
    sum.cancel();  // once more does nothing
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
      std::jthread waiter([&] { EXPECT_THROW(never.wait(20s), lsched::error); });
      std::this_thread::sleep_for(20ms);
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
    if (mine.rank() != 2) {
      (void)sum.offer(ones);
      (void)sum.offer(ones);
    }
    barrier.run(20s);
    if (mine.rank() == 0) sum.cancel();
    barrier.run(20s);
    EXPECT_EQ(sum.withdraw(), mine.rank() == 2 ? 0u : 1u);  // the first was in a round that was under way
    sum.close(1s);
    barrier.close();
  });
}

// Not the neighbour, who waits as well, but the rank that everybody waits for in the end.
TEST(diagnosis, names_who_has_not_entered_the_round) {
  lsched::testing::as_ranks(5, [](lsched::world& mine) {
    std::vector<double> data(10);
    lsched::schedule ring = mine.allreduce<double>(data, LSCHED_SUM, "ring");
    lsched::schedule barrier = mine.barrier();
    EXPECT_EQ(mine.diagnose(), "");
    if (mine.rank() == 3) {
      std::this_thread::sleep_for(300ms);
    } else {
      try {
        ring.run(150ms);
      } catch (const lsched::error& why) {
        EXPECT_EQ(why.diagnostic().rank, 3) << why.what();
        EXPECT_NE(std::string(why.what()).find("not entered by rank 3"), std::string::npos) << why.what();
        EXPECT_NE(mine.diagnose().find("not entered by rank 3"), std::string::npos) << mine.diagnose();
      }
      std::this_thread::sleep_for(100ms);  // until all have said so
      ring.cancel();
    }
    barrier.run(20s);
    EXPECT_NE(mine.diagnose().find("a rank has given the schedule up"), std::string::npos) << mine.diagnose();
    ring.close();
    barrier.close();
  });
}

// Rank 0 runs the two in the other order: it and nobody else is in the way.
TEST(diagnosis, follows_the_chain_through_other_schedules) {
  lsched::testing::as_ranks(3, [](lsched::world& mine) {
    std::vector<double> data(10);
    lsched::schedule sum = mine.allreduce<double>(data);
    lsched::schedule barrier = mine.barrier();
    lsched::schedule end = mine.barrier();
    lsched::schedule& first = mine.rank() == 1 ? barrier : sum;
    if (mine.rank() != 2) {
      EXPECT_THROW(first.run(300ms), lsched::error);
    } else {
      std::this_thread::sleep_for(150ms);
      try {
        sum.run(50ms);
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

/// Arithmetic that stays in the middle of its operands until it is told to go on.
struct slow_reader {
  std::atomic<bool> reads{false}, goes_on{false};

  static void combine(const void* lower, const void* higher, void* target, std::uint64_t count, void* context) {
    auto& mine = *static_cast<slow_reader*>(context);
    mine.reads = true;
    for (int ms = 0; ms < 20'000 && !mine.goes_on; ++ms) std::this_thread::sleep_for(1ms);
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
      while (!slow.reads) std::this_thread::sleep_for(1ms);
      EXPECT_THROW(started.wait(1ms), lsched::error);
      try {
        reduce.cancel();
        ADD_FAILURE() << "nobody is said to read";
      } catch (const lsched::error& why) {
        EXPECT_EQ(why.status(), LSCHED_ERR_BUSY);
        EXPECT_EQ(why.diagnostic().rank, 1);
        EXPECT_NE(std::string(why.what()).find("rank 1 reads this rank's memory"), std::string::npos) << why.what();
      }
      EXPECT_THROW(reduce.close(), lsched::error);
      slow.goes_on = true;
      reduce.cancel();
    } else {
      reduce.run(20s);  // it has read all that it needs
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
