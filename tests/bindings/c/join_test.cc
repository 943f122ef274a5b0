// Tests of worlds that grow. The ranks of a world open a larger world with new ranks, carry their partial schedules to
// that world, and the new ranks join these schedules (lsched_partial_join). The ranks are threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/c/lsched.h"
#include "libsched/schedule/draw.h"
#include "tests/support/one_bucket.h"
#include "tests/support/sampling.h"
#include "tests/support/thread_ranks.h"

namespace lsched::testing {
namespace {

lsched_partial_desc desc_of(const char* activation, std::uint64_t count = 2) {
  return {.struct_size = sizeof(lsched_partial_desc),
          .count = count,
          .dtype = LSCHED_I64,
          .reduction = LSCHED_SUM,
          .activation = activation,
          .lag = LSCHED_ACCUMULATE};
}

/// A world of `before` ranks, and the world of all ranks that replaces the first world. Rank r of the first world is
/// rank r of the second world.
struct growing_world {
  growing_world(std::int32_t before, std::int32_t joiners)
      : first(std::make_unique<world_of_threads>(before)), grown(before + joiners) {}

  bool is_new(std::size_t rank) const { return rank >= before; }

  std::unique_ptr<world_of_threads> first;
  const std::size_t before = static_cast<std::size_t>(first->size());
  world_of_threads grown;
};

/// Runs `body` for each rank of the world, in one thread per rank.
template <class Body>
void each(const world_of_threads& all, const Body& body) {
  all.each([&](lsched_world* world, std::int32_t rank) { body(world, static_cast<std::size_t>(rank)); });
}

/// Moves the schedule to the grown world, or joins the schedule on a new rank.
lsched_status enter(const growing_world& all, std::size_t rank, const lsched_partial_desc& desc,
                    lsched_schedule** schedule, lsched_diagnostic* why = nullptr) {
  lsched_world* const grown = all.grown.at(static_cast<std::int32_t>(rank));
  return all.is_new(rank) ? lsched_partial_join(grown, &desc, schedule, why) : lsched_carry(*schedule, grown, why);
}

TEST(join, new_ranks_take_part_from_the_next_round) {
  growing_world all(3, 2);
  std::array<lsched_schedule*, 5> its{};
  const std::int64_t one[2]{1, 10};
  lsched_partial_desc desc = desc_of("full");
  each(*all.first, [&](lsched_world* world, std::size_t r) {
    ASSERT_EQ(lsched_partial_create(world, &desc, &its[r], nullptr), LSCHED_OK);
    for (std::uint64_t round = 1; round <= 3; ++round) {
      lsched_ticket ticket{};
      std::int64_t sum[2]{};
      ASSERT_EQ(lsched_offer(its[r], one_bucket(one), &ticket), LSCHED_OK);
      if (round == 3) break;  // this offer is pending, or was captured, when rank 1 stops its schedule
      ASSERT_EQ(lsched_collect(ticket, one_bucket(sum), k_limit_ns, nullptr, nullptr), LSCHED_OK);
      EXPECT_EQ(sum[1], 30);
    }
  });
  each(all.grown, [&](lsched_world*, std::size_t r) {
    diagnostic why;
    ASSERT_EQ(enter(all, r, desc, &its[r], &why), LSCHED_OK) << why.text;
    lsched_ticket ticket{its[r], 3};
    std::int64_t sum[2]{};
    lsched_report report{.struct_size = sizeof report};
    if (!all.is_new(r)) {  // round 3 may be over
      EXPECT_EQ(lsched_collect({its[r], 0}, one_bucket(sum), k_limit_ns, &report, nullptr), LSCHED_OK);
    }
    std::int64_t earlier = sum[0];
    ASSERT_EQ(lsched_offer(its[r], one_bucket(one), &ticket), LSCHED_OK);
    EXPECT_EQ(lsched_flush(its[r], one_bucket(sum), k_limit_ns, &report, &why), LSCHED_OK) << why.text;
    earlier += sum[0];
    EXPECT_EQ(report.last.ranks, 5u);
    EXPECT_GE(report.to, 4u);
    // All results after round 2 together contain two offers of each member and one offer of each new rank. A new rank
    // lacks the result of round 3 if that round was over before the switch.
    EXPECT_TRUE(earlier == 8 || (all.is_new(r) && earlier == 5)) << earlier;
    lsched_partial_stats stats{.struct_size = sizeof stats};
    EXPECT_EQ(lsched_schedule_stats(its[r], &stats), LSCHED_OK);
    EXPECT_EQ(stats.in_time + stats.late, stats.rounds) << "rank " << r;
    EXPECT_EQ(lsched_schedule_destroy(its[r], k_limit_ns, nullptr), LSCHED_OK);
  });
}

// Results are divided by the number of ranks at the creation, on new ranks too.
TEST(join, new_ranks_divide_as_the_others) {
  growing_world all(2, 3);
  std::array<lsched_schedule*, 5> its{};
  lsched_partial_desc desc = desc_of("full", 1);
  desc.dtype = LSCHED_F64;
  desc.divisor = LSCHED_DIVIDE_BY_RANKS;
  each(*all.first, [&](lsched_world* world, std::size_t r) {
    ASSERT_EQ(lsched_partial_create(world, &desc, &its[r], nullptr), LSCHED_OK);
  });
  each(all.grown, [&](lsched_world*, std::size_t r) {
    ASSERT_EQ(enter(all, r, desc, &its[r]), LSCHED_OK);
    const double one = 1;
    double sum = 0;
    lsched_ticket ticket{};
    ASSERT_EQ(lsched_offer(its[r], one_bucket(&one), &ticket), LSCHED_OK);
    EXPECT_EQ(ticket.round, 1u);
    ASSERT_EQ(lsched_collect(ticket, one_bucket(&sum), k_limit_ns, nullptr, nullptr), LSCHED_OK);
    EXPECT_EQ(sum, 2.5);
    EXPECT_EQ(lsched_schedule_destroy(its[r], k_limit_ns, nullptr), LSCHED_OK);
  });
}

TEST(join, a_schedule_that_nobody_carries_is_created) {
  as_ranks(3, [](lsched_world* world, std::int32_t) {
    const std::int64_t one[2]{1, 10};
    std::int64_t sum[2]{};
    lsched_schedule* schedule = nullptr;
    lsched_ticket ticket{};
    const lsched_partial_desc desc = desc_of("full");
    ASSERT_EQ(lsched_partial_join(world, &desc, &schedule, nullptr), LSCHED_OK);
    ASSERT_EQ(lsched_offer(schedule, one_bucket(one), &ticket), LSCHED_OK);
    EXPECT_EQ(ticket.round, 1u);
    ASSERT_EQ(lsched_collect(ticket, one_bucket(sum), k_limit_ns, nullptr, nullptr), LSCHED_OK);
    EXPECT_EQ(sum[1], 30);
    EXPECT_EQ(lsched_schedule_destroy(schedule, k_limit_ns, nullptr), LSCHED_OK);
  });
}

// After an error, the members go on in a world without the rank that has caused the error.
TEST(join, a_rank_that_cannot_join_is_named_and_nothing_is_lost) {
  growing_world all(2, 1);
  world_of_threads only_members(2);
  std::array<lsched_schedule*, 3> its{};
  const std::int64_t one[2]{1, 10};
  const lsched_partial_desc desc = desc_of("full"), longer = desc_of("full", 3), gathers = [] {
    lsched_partial_desc made = desc_of("full");
    return made.collective = "allgather", made;
  }();
  std::array<lsched_ticket, 2> tickets{};
  each(*all.first, [&](lsched_world* world, std::size_t r) {
    ASSERT_EQ(lsched_partial_create(world, &desc, &its[r], nullptr), LSCHED_OK);
    if (r == 0) {
      ASSERT_EQ(lsched_offer(its[r], one_bucket(one), &tickets[0]), LSCHED_OK);
    }
  });
  const auto attempt = [&](const lsched_partial_desc& of_joiner, lsched_status expected, const std::string& word) {
    each(all.grown, [&](lsched_world* grown, std::size_t r) {
      diagnostic why;
      lsched_schedule* made = nullptr;
      const lsched_status answer =
          r == 2 ? lsched_partial_join(grown, &of_joiner, &made, &why) : lsched_carry(its[r], grown, &why);
      EXPECT_EQ(answer, expected) << why.text;
      EXPECT_TRUE(why.says(word)) << why.text;
      EXPECT_EQ(made, nullptr);
    });
  };
  attempt(gathers, LSCHED_ERR_UNSUPPORTED, "only allreduce and adasum");
  attempt(desc_of("sometimes"), LSCHED_ERR_ARGUMENT, "sometimes");
  attempt(longer, LSCHED_ERR_MISMATCH, "count 3");
  each(only_members, [&](lsched_world* world, std::size_t r) {
    diagnostic why;
    ASSERT_EQ(lsched_carry(its[r], world, &why), LSCHED_OK) << why.text;
    std::int64_t sum[2]{};
    if (r == 1) {
      ASSERT_EQ(lsched_offer(its[r], one_bucket(one), &tickets[1]), LSCHED_OK);
    }
    ASSERT_EQ(lsched_collect(tickets[r], one_bucket(sum), k_limit_ns, nullptr, nullptr), LSCHED_OK);
    EXPECT_EQ(sum[1], 20);
    EXPECT_EQ(lsched_schedule_destroy(its[r], k_limit_ns, nullptr), LSCHED_OK);
  });
}

TEST(join, members_carry_their_schedules_in_the_same_order) {
  growing_world all(2, 1);
  std::array<std::array<lsched_schedule*, 2>, 3> its{};
  const lsched_partial_desc desc = desc_of("full");
  each(*all.first, [&](lsched_world* world, std::size_t r) {
    for (lsched_schedule*& one : its[r]) ASSERT_EQ(lsched_partial_create(world, &desc, &one, nullptr), LSCHED_OK);
  });
  each(all.grown, [&](lsched_world*, std::size_t r) {
    diagnostic why;
    EXPECT_EQ(enter(all, r, desc, &its[r][r % 2], &why), LSCHED_ERR_MISMATCH);
    EXPECT_TRUE(why.says("different schedules")) << why.text;
    for (lsched_schedule*& one : its[r]) ASSERT_EQ(enter(all, r, desc, &one, &why), LSCHED_OK) << why.text;
    for (lsched_schedule* one : its[r]) EXPECT_EQ(lsched_schedule_destroy(one, k_limit_ns, nullptr), LSCHED_OK);
  });
}

// A quorum that exceeds the size of the new world is reduced on new ranks, too.
TEST(join, a_quorum_of_more_ranks_is_reduced) {
  world_of_threads first(4), fewer(3);  // two ranks of the first world, and a new rank
  std::array<lsched_schedule*, 4> its{};
  const lsched_partial_desc desc = desc_of("quorum(4)");
  each(first, [&](lsched_world* world, std::size_t r) {
    ASSERT_EQ(lsched_partial_create(world, &desc, &its[r], nullptr), LSCHED_OK);
  });
  for (const std::size_t gone : {2u, 3u}) EXPECT_EQ(lsched_cancel(its[gone], nullptr), LSCHED_OK);
  for (const std::size_t gone : {2u, 3u})
    EXPECT_EQ(lsched_schedule_destroy(std::exchange(its[gone], nullptr), k_limit_ns, nullptr), LSCHED_OK);
  each(fewer, [&](lsched_world* world, std::size_t r) {
    diagnostic why;
    ASSERT_EQ(r == 2 ? lsched_partial_join(world, &desc, &its[r], &why) : lsched_carry(its[r], world, &why), LSCHED_OK)
        << why.text;
    const std::int64_t one[2]{1, 10};
    std::int64_t sum[2]{};
    lsched_ticket ticket{};
    ASSERT_EQ(lsched_offer(its[r], one_bucket(one), &ticket), LSCHED_OK);
    ASSERT_EQ(lsched_collect(ticket, one_bucket(sum), k_limit_ns, nullptr, nullptr), LSCHED_OK);
    EXPECT_EQ(sum[1], 30);
    EXPECT_EQ(lsched_schedule_destroy(its[r], k_limit_ns, nullptr), LSCHED_OK);
  });
}

// A new rank cannot take part in a flush that has begun before. Without new ranks, the flush continues.
TEST(join, a_flush_must_be_complete) {
  growing_world all(2, 1);
  world_of_threads only_members(2);
  std::array<lsched_schedule*, 3> its{};
  const lsched_partial_desc desc = desc_of("full");
  const std::int64_t one[2]{1, 10};
  each(*all.first, [&](lsched_world* world, std::size_t r) {
    ASSERT_EQ(lsched_partial_create(world, &desc, &its[r], nullptr), LSCHED_OK);
  });
  lsched_ticket ticket{};
  ASSERT_EQ(lsched_offer(its[0], one_bucket(one), &ticket), LSCHED_OK);
  ASSERT_EQ(lsched_flush(its[0], nullptr, 1'000'000, nullptr, nullptr), LSCHED_ERR_TIMEOUT);
  each(all.grown, [&](lsched_world*, std::size_t r) {
    diagnostic why;
    EXPECT_EQ(enter(all, r, desc, &its[r], &why), LSCHED_ERR_STATE) << why.text;
    EXPECT_TRUE(why.says("rank 0 has not completed lsched_flush")) << why.text;
  });
  each(only_members, [&](lsched_world* world, std::size_t r) {
    diagnostic why;
    ASSERT_EQ(lsched_carry(its[r], world, &why), LSCHED_OK) << why.text;
    std::int64_t sum[2]{};
    ASSERT_EQ(lsched_flush(its[r], one_bucket(sum), k_limit_ns, nullptr, &why), LSCHED_OK) << why.text;
    EXPECT_EQ(sum[1], 10);
    EXPECT_EQ(lsched_schedule_destroy(its[r], k_limit_ns, nullptr), LSCHED_OK);
  });
}

// --- ledger of random trials -----------------------------------------------------------------------------------------

/// One rank of a trial. Each contribution has one element per rank of the grown world. Contribution n of rank r has
/// n in element r, and zeros elsewhere.
struct contributor {
  lsched_schedule* schedule = nullptr;
  lsched_ticket ticket{};
  std::int64_t offered = 0;  ///< number of offers
  struct one_result {
    std::uint64_t from, to;
    std::vector<std::int64_t> sum;
  };
  std::vector<one_result> results{};

  lsched_status offer(std::size_t self, std::size_t ranks) {
    std::vector<std::int64_t> mine(ranks);
    mine[self] = offered + 1;
    const lsched_status answer = lsched_offer(schedule, one_bucket(std::as_const(mine).data()), &ticket);
    if (answer == LSCHED_OK) ++offered;
    return answer;
  }
  /// Collects the first uncollected result. Returns false if there is none.
  bool collect(lsched_status* answer, std::size_t ranks, std::uint64_t round, std::uint64_t limit_ns = k_limit_ns) {
    std::vector<std::int64_t> sum(ranks);
    lsched_report report{.struct_size = sizeof report};
    *answer = lsched_collect({schedule, round}, one_bucket(sum.data()), limit_ns, &report, nullptr);
    return *answer == LSCHED_OK && add(report, std::move(sum));
  }
  void flush(std::size_t ranks) {
    std::vector<std::int64_t> sum(ranks);
    lsched_report report{.struct_size = sizeof report};
    diagnostic why;
    ASSERT_EQ(lsched_flush(schedule, one_bucket(sum.data()), k_limit_ns, &report, &why), LSCHED_OK) << why.text;
    (void)add(report, std::move(sum));
    lsched_status answer = LSCHED_OK;
    while (collect(&answer, ranks, 0)) continue;
  }
  /// Returns the sum of the results of the rounds after `last`.
  std::vector<std::int64_t> total_after(std::uint64_t last, std::size_t ranks) const {
    std::vector<std::int64_t> total(ranks);
    for (const one_result& one : results)
      for (std::size_t i = 0; i < ranks && one.to > last; ++i) total[i] += one.sum[i];
    return total;
  }

 private:
  bool add(const lsched_report& report, std::vector<std::int64_t> sum) {
    if (report.from == report.to) return false;
    if (report.has_result == 0) std::ranges::fill(sum, 0);
    results.push_back({report.from, report.to, std::move(sum)});
    return true;
  }
};

/// Ranks offer and collect at random in a world. Then this world is replaced by a larger world at different times of
/// each rank. All contributions must arrive once on the old ranks. New ranks must receive the same results as the old
/// ranks, from some round on.
void run_trial(std::uint64_t seed) {
  const auto draw = [&](std::uint64_t what, std::uint64_t below) { return mix(seed * 1000 + what) % below; };
  constexpr std::array k_activations{"solo", "majority", "quorum(2)+grace(300)", "full", "solo+every(3)"};
  const std::size_t before = 1 + draw(1, 5), ranks = before + 1 + draw(2, 3);
  const char* const activation = k_activations[before == 1 && draw(3, 5) == 2 ? 3 : draw(3, 5)];
  lsched_partial_desc desc = desc_of(activation, ranks);
  desc.lag = LSCHED_HISTORY;
  desc.history = 60;  // more than the number of rounds, so that each result is of one round
  desc.fragments = static_cast<std::uint32_t>(draw(4, 4));
  growing_world all(static_cast<std::int32_t>(before), static_cast<std::int32_t>(ranks - before));
  std::vector<contributor> its(ranks);
  each(*all.first, [&](lsched_world* world, std::size_t r) {
    ASSERT_EQ(lsched_partial_create(world, &desc, &its[r].schedule, nullptr), LSCHED_OK);
  });
  each(all.grown, [&](lsched_world*, std::size_t r) {
    contributor& mine = its[r];
    const std::uint64_t steps = all.is_new(r) ? 0 : draw(10 + r, 30);
    lsched_status answer = LSCHED_OK;
    for (std::uint64_t step = 0; step < steps && answer == LSCHED_OK; ++step) {
      if ((answer = mine.offer(r, ranks)) != LSCHED_OK) break;
      const bool waits = draw(100 * step + r, 3) == 0;
      (void)mine.collect(&answer, ranks, mine.ticket.round, waits ? k_limit_ns : 0);
      if (answer == LSCHED_ERR_TIMEOUT) answer = LSCHED_OK;
    }
    EXPECT_TRUE(answer == LSCHED_OK || answer == LSCHED_ERR_CANCELLED) << lsched_status_name(answer);
    diagnostic why;
    EXPECT_EQ(enter(all, r, desc, &mine.schedule, &why), LSCHED_OK) << why.text;
    if (mine.schedule == nullptr) std::abort();
    for (std::uint64_t step = 0; step < 5; ++step) {
      EXPECT_EQ(mine.offer(r, ranks), LSCHED_OK);
      (void)mine.collect(&answer, ranks, mine.ticket.round, draw(step, 2) == 0 ? 1000 : 0);
    }
    mine.flush(ranks);
    EXPECT_EQ(lsched_schedule_destroy(mine.schedule, k_limit_ns, nullptr), LSCHED_OK);
  });
  const std::string name = "seed " + std::to_string(seed) + ", " + activation + ", rank ";
  for (std::size_t r = 0; r < before; ++r) {
    const std::vector<std::int64_t> total = its[r].total_after(0, ranks);
    for (std::size_t of = 0; of < ranks; ++of)
      EXPECT_EQ(total[of], its[of].offered * (its[of].offered + 1) / 2) << name << r << ", from rank " << of;
  }
  const std::uint64_t last = its.back().results.front().to - 1;
  for (std::size_t r = before; r < ranks; ++r) {
    EXPECT_EQ(its[r].results.front().to - 1, last) << name << r;
    EXPECT_EQ(its[r].total_after(0, ranks), its[0].total_after(last, ranks)) << name << r;
  }
}

TEST(join, every_contribution_arrives_once) {
  for (std::uint64_t seed = 1; seed <= (sampled() ? few_seeds(20) : 400) && !::testing::Test::HasFailure(); ++seed)
    run_trial(seed);
}

}  // namespace
}  // namespace lsched::testing
