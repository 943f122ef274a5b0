// Tests of partial schedules on the engine, with all ranks in one thread. The tests cover the start of rounds,
// captures, reports, and ranks that leave. The oracle keeps the offers (contributions) of each rank in a queue. Each
// report contains the sum of the weights of this rank's offers that the result includes. These offers are always the
// oldest.
// Therefore the oracle can compute each result exactly.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <numeric>
#include <optional>

#include "collectives/allreduce/allreduce.h"
#include "libsched/engine/engine.h"
#include "libsched/schedule/draw.h"
#include "libsched/schedule/geometry.h"
#include "tests/libsched/allocation_count.h"
#include "tests/support/enough_callers.h"
#include "tests/support/generators.h"
#include "tests/support/lockstep_world.h"
#include "tests/support/sampling.h"

namespace lsched {
namespace {

using testing::lockstep_world;

constexpr rank k_most_ranks = 33;
using vector_of_integers = std::vector<std::int64_t>;

std::string text_of(const activation& starts, rank size, std::uint64_t seed) {
  return words_for(starts) + ", " + std::to_string(size) + " ranks, seed " + std::to_string(seed);
}

/// The report and the result that a rank has collected for the rounds in (from, to].
struct delivery_record {
  delivered what;
  vector_of_integers result;
};

class partial_bench {
 public:
  using generator = std::function<result<schedule_ptr>(lsched::world, const shape&, const activation&)>;

  /// Commits the schedule on all ranks. If `generate` is null, the algorithm is random, and in half of the worlds the
  /// vector of an allreduce is divided into buckets.
  partial_bench(rank size, std::uint64_t seed, activation starts, lag_rule lag, std::uint64_t count = 3,
                generator generate = nullptr, const collective& of = k_partial_allreduce)
      : world(size, seed), of_(of), starts_(starts), pending_(static_cast<std::size_t>(size)) {
    shape data{count, dtype::i64, kernel::sum, false};
    const extents both = of.extents_of({0, size}, data);
    given_ = *both.input;
    made_ = *both.output;
    const bool is_cut = (seed + wide(size)) % 2 == 0;
    if (generate == nullptr && of.has_buckets && count > 0 && is_cut) data.buckets = {count / 3, 0, count - count / 3};
    if (generate == nullptr) generate = draw_generator(data);
    its = world.commit([&](rank r) {
      return commit_request{"partial", generate({r, size}, data, starts), {}, {.lag = lag}};
    });
    present.resize(static_cast<std::size_t>(size));
    std::iota(present.begin(), present.end(), 0);
  }

  /// Returns a random algorithm that supports the request.
  generator draw_generator(const shape& data) {
    std::vector<generator> able;
    for (const algorithm& it : algorithms())
      if (it.of == &of_ && !validate(it, {0, world.size()}, data, starts_))
        able.emplace_back(std::bind_front(&algorithm::generate, &it));
    return able[world.draw_below(able.size())];
  }

  rank size() const { return world.size(); }
  instance& at(rank r) { return *its[static_cast<std::size_t>(r)]; }
  /// An offer that no round has captured, multiplied by its weight.
  struct weighted_offer {
    vector_of_integers data;
    std::uint64_t weight;
  };
  std::deque<weighted_offer>& pending(rank r) { return pending_[static_cast<std::size_t>(r)]; }
  std::uint64_t pending_weight(rank r) {
    std::uint64_t sum = 0;
    for (const weighted_offer& one : pending(r)) sum += one.weight;
    return sum;
  }

  /// Offers random numbers with a random weight. Half of the weights are 1.
  void offer(rank r) {
    const std::uint64_t draw = world.draw_below(10), weight = draw < 5 ? 1 : draw;
    vector_of_integers gradient(given_);
    for (auto& value : gradient) value = static_cast<std::int64_t>(world.draw_below(1u << 20)) - (1 << 19);
    at(r).partial->fragments.front().offers->offer(reinterpret_cast<const std::byte*>(gradient.data()), 0, weight);
    for (auto& value : gradient) value *= static_cast<std::int64_t>(weight);
    pending(r).push_back({std::move(gradient), weight});
  }

  void call(rank r, round_no round) {
    if (round != k_last_round) at(r).partial->stats->calls.note(round, trace_buffer::now_ns());
    if (at(r).called < round) at(r).called.store(round);
    world.at(r).post(at(r));
  }

  void leave(rank r) {
    at(r).partial->fragments.front().offers->leave();
    call(r, k_last_round);
    std::erase(present, r);
  }

  /// Returns a random set of callers that suffices to start the round.
  std::vector<bool> draw_callers(round_no round) {
    const auto first = static_cast<rank>(world.draw_below(its.size()));
    std::vector<bool> calls = testing::enough_callers(starts_, round, size(), at(0).present, first);
    const std::uint64_t density = 1 + world.draw_below(4);
    for (const rank r : present)
      if (world.draw_below(4) < density) calls[static_cast<std::size_t>(r)] = true;
    return calls;
  }

  /// Makes calls, offers and steps in random order until the round has ended on all ranks. One of `one_in` callers
  /// makes no offer. Sometimes a rank makes an offer without a call.
  void run_round(round_no round, std::uint64_t one_in = 4) {
    const std::vector<bool> calls = draw_callers(round);
    for (rank r = 0; r < size(); ++r) {
      const bool offers = calls[static_cast<std::size_t>(r)] ? world.draw_below(one_in) != 0 : world.draw_below(5) == 0;
      const bool is_here = std::ranges::find(present, r) != present.end();
      if (offers && is_here) offer(r);
      if (calls[static_cast<std::size_t>(r)]) call(r, round);
      for (std::uint64_t steps = world.draw_below(2 * static_cast<std::uint64_t>(size())); steps > 0; --steps)
        world.step();
      if (is_here && world.draw_below(8) == 0) offer(r);  // an offer after the capture is for the next round
    }
    run_until_round(round);
  }

  bool run_until_round(round_no round) {
    return world.run_until([&] {
      round_no first = k_last_round;
      round_no last = 0;
      for (const instance* it : its) {
        const round_no at_least = it->finished == k_last_round ? it->round : it->finished.load();
        first = std::min(first, it->finished.load());
        last = std::max(last, at_least);
      }
      if (first < last) {
        EXPECT_LE(last - first, 1u) << "a rank ran ahead; " << world.describe();
      }
      return first >= round;
    });
  }

  std::optional<delivery_record> collect(rank r) {
    delivery_record got{{}, vector_of_integers(made_, -12345)};
    const auto what =
        at(r).partial->fragments.front().results->collect(reinterpret_cast<std::byte*>(got.result.data()));
    if (!what) return std::nullopt;
    got.what = *what;
    if (got.what.null) {
      EXPECT_EQ(got.result, vector_of_integers(made_, -12345)) << "a null result was written";
    }
    return got;
  }

  /// Removes the oldest pending offers of a rank, whose weights have the sum `weight`, and adds them to `sum`.
  void take_pending(rank r, std::uint64_t weight, vector_of_integers& sum) {
    while (weight > 0) {
      ASSERT_FALSE(pending(r).empty()) << "more was sent than offered";
      const weighted_offer& first = pending(r).front();
      ASSERT_LE(first.weight, weight) << "a part of a weight was counted";
      for (std::size_t i = 0; i < given_; ++i) sum[i] += first.data[i];
      weight -= first.weight;
      pending(r).pop_front();
    }
  }

  /// Returns the result that rank `r` must get if the ranks contribute `given`. For a rank that does not contribute,
  /// `given` contains zeros.
  vector_of_integers expected(rank r, const std::vector<vector_of_integers>& given) const {
    vector_of_integers all;
    if (&of_ == &k_partial_allgather) {
      for (const vector_of_integers& one : given) all.insert(all.end(), one.begin(), one.end());
      return all;
    }
    all.resize(given_);
    for (const vector_of_integers& one : given) std::ranges::transform(all, one, all.begin(), std::plus<>{});
    if (&of_ == &k_partial_allreduce) return all;
    const auto begin = all.begin() + r * static_cast<std::ptrdiff_t>(made_);
    return {begin, begin + static_cast<std::ptrdiff_t>(made_)};
  }

  /// Collects the result of a round on every rank. Checks that the reports agree, and that the results contain exactly
  /// the captured offers.
  void check_round(round_no round) {
    std::vector<vector_of_integers> given(its.size(), vector_of_integers(given_));
    std::uint64_t offers = 0;
    std::uint64_t contributors = 0;
    std::vector<delivery_record> got;
    for (rank r = 0; r < size(); ++r) {
      auto one = collect(r);
      ASSERT_TRUE(one.has_value()) << "rank " << r << "; " << world.describe();
      take_pending(r, one->what.mine, given[static_cast<std::size_t>(r)]);
      offers += one->what.mine;
      contributors += one->what.mine > 0 ? 1u : 0u;
      got.push_back(std::move(*one));
      EXPECT_FALSE(collect(r).has_value()) << "delivered twice";
    }
    for (rank r = 0; r < size(); ++r) {
      const delivery_record& one = got[static_cast<std::size_t>(r)];
      ASSERT_EQ(one.what.from, round - 1);
      ASSERT_EQ(one.what.to, round);
      ASSERT_EQ(one.what.offers, offers) << world.describe();
      ASSERT_EQ(one.what.contributors, contributors) << world.describe();
      ASSERT_EQ(one.what.null, contributors == 0) << world.describe();
      if (!one.what.null) {
        ASSERT_EQ(one.result, expected(r, given)) << world.describe();
      }
    }
  }

  void remove() {
    world.remove(its);
    EXPECT_EQ(world.net().edges(), 0u) << "edges are left over";
  }

  bool is_closed() const {
    return std::ranges::all_of(its, [](const instance* it) { return it->finished == k_last_round; });
  }

  lockstep_world world;
  std::vector<instance*> its;
  std::vector<rank> present;

 private:
  const collective& of_;
  std::uint64_t given_ = 0, made_ = 0;  ///< number of elements of a contribution, and of a result
  activation starts_;
  std::vector<std::deque<weighted_offer>> pending_;
};

/// Returns one activation for each policy except `deadline`. The parameter of a policy has a value in the middle of its
/// range.
std::vector<activation> activations_for(rank size, std::uint64_t seed) {
  const auto ranks = static_cast<std::uint32_t>(size);
  return {{.policy = activation_policy::full},
          {.policy = activation_policy::solo},
          {.policy = activation_policy::majority, .seed = seed},
          {.policy = activation_policy::first_of, .seed = seed, .number = (ranks + 2) / 3},
          {.policy = activation_policy::all_of, .seed = seed, .number = (ranks + 1) / 2, .full_every = 3},
          {.policy = activation_policy::quorum, .number = (ranks + 1) / 2},
          {.policy = activation_policy::solo, .full_every = 2}};
}

template <class Check>
void for_every_world(Check&& check) {
  for (rank size = 1; size <= k_most_ranks; size += testing::sampled() && size > 2 ? 7 : 1)
    for (const std::uint64_t seed : {1u, 2u})
      for (const activation& starts : activations_for(size, seed)) {
        const ::testing::ScopedTrace trace(__FILE__, __LINE__, text_of(starts, size, seed));
        check(starts, size, seed);
        if (::testing::Test::HasFailure()) return;
      }
}

// --- rounds ----------------------------------------------------------------------------------------------------------

TEST(partial, every_offer_is_in_exactly_one_round_and_all_ranks_are_told_the_same) {
  for_every_world([](const activation& starts, rank size, std::uint64_t seed) {
    for (const lag_policy lag : {lag_policy::latest, lag_policy::accumulate}) {
      partial_bench bench(size, seed, starts, lag);
      if (size > 2) bench.world.set_pace(size / 2, 10);
      for (round_no round = 1; round <= 12; ++round) {
        bench.run_round(round);
        bench.check_round(round);
        if (::testing::Test::HasFailure()) return;
      }
      for (rank r = 0; r < size; ++r)
        EXPECT_EQ(bench.at(r).partial->fragments.front().offers->withdraw(), bench.pending_weight(r));
    }
  });
}

TEST(partial, an_allgather_and_a_reduce_scatter_hold_what_was_offered_and_zeros_for_who_was_absent) {
  for (const collective* of : {&k_partial_allgather, &k_partial_reduce_scatter_block})
    for_every_world([of](const activation& starts, rank size, std::uint64_t seed) {
      partial_bench bench(size, seed, starts, lag_policy::latest, seed, nullptr, *of);
      for (round_no round = 1; round <= 4; ++round) {
        bench.run_round(round, 2);
        bench.check_round(round);
        if (::testing::Test::HasFailure()) return;
      }
    });
}

TEST(partial, nobody_offers_then_the_round_is_null) {
  for_every_world([](const activation& starts, rank size, std::uint64_t seed) {
    partial_bench bench(size, seed, starts, lag_policy::latest);
    for (round_no round = 1; round <= 3; ++round) {
      for (rank r = 0; r < size; ++r) bench.call(r, round);
      if (!bench.run_until_round(round)) return;
      bench.check_round(round);
    }
    for (rank r = 0; r < size; ++r) EXPECT_EQ(bench.world.at(r).counters().bytes_sent, 0u);
  });
}

TEST(partial, a_count_of_zero_works_like_any_other) {
  for (const rank size : {1, 3, 5, 6, 7, 8})
    for (const activation& starts : activations_for(size, 8)) {
      partial_bench bench(size, 8, starts, lag_policy::accumulate, 0);
      for (round_no round = 1; round <= 4; ++round) {
        bench.run_round(round);
        bench.check_round(round);
      }
    }
}

/// In the tree algorithm, the contributor first sends its buffer towards the root. This needs one additional message
/// per hop.
TEST(partial, one_active_rank_of_32_moves_one_buffer_to_each_other_rank_and_hardly_more) {
  constexpr std::uint64_t count = 1000;
  for (rank run = 0; run < 14; ++run) {
    const rank active = run / 2 * 5;
    const bool is_tree = run % 2 != 0;
    partial_bench bench(32, 3, {activation_policy::solo, 0}, lag_policy::latest, count,
                        is_tree ? partial_allreduce_tree : partial_allreduce);
    bench.offer(active);
    bench.call(active, 1);
    ASSERT_TRUE(bench.run_until_round(1));
    bench.check_round(1);
    std::uint64_t bytes = 0;
    std::uint64_t signals = 0;
    for (rank r = 0; r < 32; ++r) {
      bytes += bench.world.at(r).counters().bytes_sent;
      signals += bench.world.at(r).counters().signals_sent;
    }
    const auto hops_up = static_cast<std::uint64_t>(is_tree ? knomial(32, k_tree_radix).depth_of(active) : 0);
    EXPECT_EQ(bytes, (31 + hops_up) * count * sizeof(std::int64_t));
    EXPECT_EQ(signals, 31u);
  }
}

TEST(partial, a_majority_round_waits_for_the_drawn_rank_and_for_no_other) {
  for (const rank size : {2, 3, 5, 8, 13})
    for (const std::uint64_t seed : {1u, 2u, 3u}) {
      partial_bench bench(size, seed, {activation_policy::majority, seed}, lag_policy::latest);
      for (round_no round = 1; round <= 8; ++round) {
        const rank drawn = draw(seed, round, bench.at(0).present);
        for (rank r = 0; r < size; ++r)
          if (r != drawn) bench.call(r, round);
        bench.world.settle();
        for (rank r = 0; r < size; ++r) ASSERT_EQ(bench.at(r).finished, round - 1);
        rank waits_for = k_no_rank;
        (void)bench.world.at(0).describe_wait(bench.at(0), &waits_for);
        EXPECT_EQ(waits_for, drawn);
        bench.call(drawn, round);
        ASSERT_TRUE(bench.run_until_round(round));
      }
    }
}

/// If one of the needed candidates does not call, the round does not start. Calls of ranks that are not
/// candidates have no effect.
TEST(partial, a_round_waits_for_as_many_candidates_as_it_takes) {
  for (const rank size : {2, 3, 5, 8, 13})
    for (const char* words : {"first_of(2)", "all_of(2)", "quorum(2)", "quorum(2)+every(3)", "all_of(2)+every(3)"}) {
      activation starts = *read_activation(words);
      starts.seed = 9;
      partial_bench bench(size, 9, starts, lag_policy::latest);
      for (round_no round = 1; round <= 9; ++round) {
        const auto first = static_cast<rank>(bench.world.draw_below(static_cast<std::uint64_t>(size)));
        const auto enough = testing::enough_callers(starts, round, size, bench.present, first);
        rank last = k_no_rank;
        drawn_ranks drawn(size);
        drawn.draw(starts.seed, round, bench.present, quota_of(starts, size).candidates);
        for (rank r = 0; r < size; ++r) {
          const bool is_idle_talk = !drawn.holds(r) && !starts.is_full(round) && bench.world.draw_below(2) == 0;
          const bool is_needed = enough[static_cast<std::size_t>(r)];
          if (is_needed && last == k_no_rank)
            last = r;
          else if (is_needed || is_idle_talk)
            bench.call(r, round);
        }
        bench.world.settle();
        for (rank r = 0; r < size; ++r) ASSERT_EQ(bench.at(r).finished, round - 1) << words << " " << round;
        EXPECT_NE(bench.world.at(0).describe_wait(bench.at(0), nullptr).find("not started: waits for"),
                  std::string::npos)
            << bench.world.describe();
        bench.call(last, round);
        ASSERT_TRUE(bench.run_until_round(round));
      }
    }
}

/// If fewer ranks remain than the policy needs, the round starts only when all remaining ranks have called.
TEST(partial, who_has_left_is_replaced_where_too_few_stay) {
  for (const char* words : {"quorum(4)", "all_of(4)", "quorum(5)", "quorum(4)+every(4)"})
    for (rank stay = 1; stay < 5; ++stay) {
      partial_bench bench(5, 3, *read_activation(words), lag_policy::accumulate);
      for (rank r = stay; r < 5; ++r) bench.leave(r);
      while (bench.at(0).present.size() > static_cast<std::size_t>(stay)) {  // one rank leaves per round
        const round_no open = bench.at(0).finished + 1;
        for (rank r = 0; r < stay; ++r) bench.call(r, open);
        ASSERT_TRUE(bench.run_until_round(open));
        bench.world.settle();
      }
      for (int i = 0; i < 6; ++i) {
        const round_no open = bench.at(0).finished + 1;
        const auto needed = std::min(stay, open % 4 == 0 ? stay : rank{4});
        for (rank r = 1; r < needed; ++r) bench.call(r, open);
        bench.world.settle();
        ASSERT_EQ(bench.at(0).finished, open - 1) << words << ", " << stay << " stay";
        bench.call(0, open);
        ASSERT_TRUE(bench.run_until_round(open));
        bench.world.settle();
        ASSERT_EQ(bench.at(0).finished, open);
      }
    }
}

TEST(partial, a_full_round_waits_for_everybody) {
  for (const rank size : {2, 3, 5, 8}) {
    partial_bench bench(size, 4, {activation_policy::full, 0}, lag_policy::latest);
    for (round_no round = 1; round <= 4; ++round) {
      const auto last = static_cast<rank>(bench.world.draw_below(static_cast<std::uint64_t>(size)));
      for (rank r = 0; r < size; ++r)
        if (r != last) bench.call(r, round);
      bench.world.settle();
      for (rank r = 0; r < size; ++r) ASSERT_EQ(bench.at(r).finished, round - 1);
      bench.call(last, round);
      ASSERT_TRUE(bench.run_until_round(round));
    }
  }
}

TEST(partial, a_call_that_comes_early_starts_its_round_when_that_opens) {
  for (const rank size : {3, 5, 8}) {
    partial_bench bench(size, 4, {activation_policy::solo, 0}, lag_policy::latest);
    bench.call(1, 3);
    ASSERT_TRUE(bench.run_until_round(3));
    bench.world.settle();
    for (rank r = 0; r < size; ++r) EXPECT_EQ(bench.at(r).finished, 3u);
    bench.call(0, 2);  // round 2 has ended before this call
    bench.world.settle();
    for (rank r = 0; r < size; ++r) EXPECT_EQ(bench.at(r).finished, 3u);
  }
}

TEST(partial, what_is_withdrawn_is_not_sent) {
  for (const rank size : {1, 3, 5}) {
    partial_bench bench(size, 6, {activation_policy::solo, 0}, lag_policy::latest);
    EXPECT_EQ(bench.at(0).partial->fragments.front().offers->withdraw(), 0u);
    for (int i = 0; i < 3; ++i) bench.offer(0);
    EXPECT_EQ(bench.at(0).partial->fragments.front().offers->withdraw(), bench.pending_weight(0));
    bench.pending(0).clear();
    bench.call(0, 1);
    ASSERT_TRUE(bench.run_until_round(1));
    bench.check_round(1);
    bench.offer(0);
    bench.call(0, 2);
    ASSERT_TRUE(bench.run_until_round(2));
    bench.check_round(2);
  }
}

// --- statistics ------------------------------------------------------------------------------------------------------

std::uint64_t values_in(const histogram& it) { return std::reduce(it.bins.begin(), it.bins.end()); }

/// Returns the number of bytes in the messages of one round. Null messages count with their full length.
std::uint64_t bytes_of_round(const schedule& program) {
  std::uint64_t bytes = 0;
  for (const op& what : program.ops())
    if (what.kind == op_kind::send) bytes += most_bytes(program, what);
  return bytes;
}

void offer_and_call(partial_bench& bench, rank r, round_no round) {
  const vector_of_integers ones(3, 1);
  bench.at(r).partial->fragments.front().offers->offer(reinterpret_cast<const std::byte*>(ones.data()), round);
  bench.call(r, round);
}

TEST(partial_counts, tell_who_was_in_time_who_late_and_what_null_has_saved) {
  partial_bench bench(3, 1, {activation_policy::solo}, lag_policy::latest, 3, partial_allreduce);
  offer_and_call(bench, 0, 1);
  ASSERT_TRUE(bench.run_until_round(1));
  offer_and_call(bench, 1, 1);  // this offer is included in round 2
  offer_and_call(bench, 1, 2);
  ASSERT_TRUE(bench.run_until_round(2));
  bench.world.settle();
  const auto figures_of = [&](rank r) { return bench.at(r).partial->stats->figures(); };
  for (rank r = 0; r < 3; ++r) {
    EXPECT_EQ(figures_of(r).rounds, 2u);
    EXPECT_EQ(figures_of(r).contributors[1], 2u);
    EXPECT_EQ(values_in(figures_of(r).completion_ns), 2u);
  }
  const std::uint64_t nulls_before = figures_of(2).nulls_sent, messages_before = figures_of(2).messages_sent;
  bench.call(2, 3);  // this call has no offer; it is also a late call for rounds 1 and 2
  ASSERT_TRUE(bench.run_until_round(3));
  bench.world.settle();
  struct expected {
    std::uint64_t in_time, late, uncalled, contributions, staleness;
  };
  const expected of_rank[] = {{1, 0, 2, 1, 0}, {1, 1, 1, 1, 1}, {1, 2, 0, 0, 0}};
  for (rank r = 0; r < 3; ++r) {
    const partial_figures seen = figures_of(r);
    const expected& should = of_rank[r];
    EXPECT_EQ(seen.in_time, should.in_time) << "rank " << r;
    EXPECT_EQ(seen.late, should.late) << "rank " << r;
    EXPECT_EQ(seen.uncalled(), should.uncalled) << "rank " << r;
    EXPECT_EQ(values_in(seen.early_ns), should.in_time) << "rank " << r;
    EXPECT_EQ(values_in(seen.late_ns), should.late) << "rank " << r;
    EXPECT_EQ(values_in(seen.staleness), should.contributions) << "rank " << r;
    EXPECT_EQ(seen.staleness.max, should.staleness) << "rank " << r;
    EXPECT_EQ(seen.contributors[0], 1u);
    EXPECT_EQ(seen.contributors_sum, 2u);
    EXPECT_EQ(seen.contributors_min, 0u);
    EXPECT_EQ(seen.bytes_sent + seen.bytes_saved, 3 * bytes_of_round(*bench.at(r).program)) << "rank " << r;
  }
  EXPECT_EQ(figures_of(2).nulls_sent - nulls_before, figures_of(2).messages_sent - messages_before);
  EXPECT_GT(figures_of(2).messages_sent, messages_before);
}

TEST(partial_counts, add_up_whatever_the_ranks_do) {
  for_every_world([](const activation& starts, rank size, std::uint64_t seed) {
    partial_bench bench(size, seed, starts, lag_policy::latest);
    constexpr round_no k_rounds = 8;
    for (round_no round = 1; round <= k_rounds; ++round) bench.run_round(round);
    bench.world.settle();
    std::uint64_t contributions = 0;
    for (rank r = 0; r < size; ++r) {
      const partial_figures seen = bench.at(r).partial->stats->figures();
      const engine_counters& counted = bench.world.at(r).counters();
      ASSERT_EQ(seen.rounds, bench.at(r).finished) << bench.world.describe();
      ASSERT_EQ(seen.in_time + seen.late, std::min<round_no>(bench.at(r).called, seen.rounds)) << "rank " << r;
      ASSERT_EQ(values_in(seen.early_ns), seen.in_time) << "rank " << r;
      ASSERT_EQ(values_in(seen.late_ns), seen.late) << "rank " << r;
      ASSERT_EQ(values_in(seen.completion_ns), seen.rounds) << "rank " << r;
      ASSERT_EQ(std::reduce(seen.contributors.begin(), seen.contributors.end()), seen.rounds) << "rank " << r;
      ASSERT_EQ(seen.contributors_sum, bench.at(0).partial->stats->figures().contributors_sum) << "rank " << r;
      ASSERT_EQ(seen.messages_sent, counted.messages_sent) << "rank " << r;
      ASSERT_EQ(seen.nulls_sent, counted.nulls_sent) << "rank " << r;
      ASSERT_EQ(seen.bytes_sent, counted.bytes_sent) << "rank " << r;
      ASSERT_EQ(seen.bytes_sent + seen.bytes_saved, seen.rounds * bytes_of_round(*bench.at(r).program)) << "rank " << r;
      contributions += values_in(seen.staleness);
    }
    EXPECT_EQ(contributions, bench.at(0).partial->stats->figures().contributors_sum);
  });
}

TEST(partial_counts, in_full_rounds_nobody_is_late) {
  for (const rank size : {1, 2, 5}) {
    partial_bench bench(size, 3, {activation_policy::full}, lag_policy::latest, 0);
    for (round_no round = 1; round <= 4; ++round) bench.run_round(round, 1);
    for (rank r = 0; r < size; ++r) {
      const partial_figures& seen = bench.at(r).partial->stats->figures();
      EXPECT_EQ(seen.in_time, 4u);
      EXPECT_EQ(seen.uncalled(), 0u);
      EXPECT_EQ(seen.bytes_sent + seen.bytes_saved, 0u) << "there are no elements";
    }
  }
}

TEST(partial_counts, who_has_left_does_not_call) {
  partial_bench bench(2, 3, {activation_policy::solo}, lag_policy::latest);
  bench.call(0, 1);
  ASSERT_TRUE(bench.run_until_round(1));
  bench.leave(0);
  for (round_no round = 1; round <= 3; ++round) {
    bench.call(1, bench.at(1).finished + 1);
    ASSERT_TRUE(bench.run_until_round(bench.at(1).called));
    bench.world.settle();
  }
  const partial_figures& seen = bench.at(0).partial->stats->figures();
  EXPECT_EQ(seen.in_time, 1u);
  EXPECT_EQ(seen.late, 0u);
  EXPECT_EQ(seen.uncalled(), seen.rounds - 1);
}

// --- results that are not collected in time ------------------------------------------------------------------

// Rank 0 collects the result of every round, so the test knows all results. The other ranks skip some collects.
TEST(partial, a_late_collect_delivers_the_newest_result_or_the_sum_of_all) {
  for (const lag_policy lag : {lag_policy::latest, lag_policy::accumulate})
    for (const rank size : {2, 3, 5, 8})
      for (const std::uint64_t seed : {1u, 2u, 3u}) {
        partial_bench bench(size, seed, {activation_policy::solo, seed}, lag);
        std::vector<delivery_record> history{{}};
        for (round_no round = 1; round <= 40; ++round) {
          bench.run_round(round, 2);
          history.push_back(*bench.collect(0));
          ASSERT_EQ(history.back().what.to, round);
          const auto late = static_cast<rank>(1 + bench.world.draw_below(static_cast<std::uint64_t>(size - 1)));
          const auto got = bench.collect(late);
          if (!got) continue;
          ASSERT_EQ(got->what.to, round);
          vector_of_integers expected(3);
          std::uint64_t offers = 0;
          bool null = true;
          for (round_no past = got->what.from + 1; past <= round; ++past) {
            const delivery_record& one = history[past];
            if (one.what.null) continue;
            if (lag == lag_policy::latest) std::ranges::fill(expected, 0), offers = 0;
            for (std::size_t i = 0; i < 3; ++i) expected[i] += one.result[i];
            offers += one.what.offers;
            null = false;
          }
          ASSERT_EQ(got->what.null, null) << bench.world.describe();
          ASSERT_EQ(got->what.offers, offers) << bench.world.describe();
          if (!null) {
            ASSERT_EQ(got->result, expected) << "rank " << late << "; " << bench.world.describe();
          }
        }
      }
}

TEST(partial, intervals_of_deliveries_are_adjacent) {
  partial_bench bench(3, 5, {activation_policy::solo, 5}, lag_policy::accumulate);
  std::vector<round_no> seen(3);
  for (round_no round = 1; round <= 60; ++round) {
    bench.run_round(round);
    const auto r = static_cast<rank>(bench.world.draw_below(3));
    const auto got = bench.collect(r);
    if (!got) continue;
    EXPECT_EQ(got->what.from, seen[static_cast<std::size_t>(r)]);
    EXPECT_EQ(got->what.to, round);
    seen[static_cast<std::size_t>(r)] = round;
    EXPECT_EQ(bench.at(r).partial->fragments.front().results->collected().to, round);
  }
}

// --- leaving -------------------------------------------------------------------------------------------------

/// Checks, after all ranks have left, that no offer was lost and that all resources can be freed.
void check_end(partial_bench& bench, std::vector<vector_of_integers> totals, const vector_of_integers& offered) {
  ASSERT_TRUE(bench.world.run_until([&] { return bench.is_closed(); }));
  bench.world.settle();
  for (rank r = 0; r < bench.size(); ++r) {
    EXPECT_EQ(bench.at(r).phase, phase::closed);
    if (const auto last = bench.collect(r); last && !last->what.null)
      for (std::size_t i = 0; i < 3; ++i) totals[static_cast<std::size_t>(r)][i] += last->result[i];
    EXPECT_EQ(totals[static_cast<std::size_t>(r)], offered) << "rank " << r << "; " << bench.world.describe();
    EXPECT_EQ(bench.at(r).partial->fragments.front().offers->withdraw(), 0u);
  }
  bench.remove();
}

struct account {
  explicit account(partial_bench& bench)
      : bench_(bench), totals(static_cast<std::size_t>(bench.size()), vector_of_integers(3)) {}
  void collect_some() {
    for (rank r = 0; r < bench_.size(); ++r) {
      if (bench_.world.draw_below(2) == 0) continue;
      const auto got = bench_.collect(r);
      for (std::size_t i = 0; got && !got->what.null && i < 3; ++i)
        totals[static_cast<std::size_t>(r)][i] += got->result[i];
    }
  }
  vector_of_integers offered() const {
    vector_of_integers sum(3);
    for (rank r = 0; r < bench_.size(); ++r)
      for (const auto& one : bench_.pending(r))
        for (std::size_t i = 0; i < 3; ++i) sum[i] += one.data[i];
    return sum;
  }
  partial_bench& bench_;
  std::vector<vector_of_integers> totals;
};

TEST(partial_leave, ranks_leave_one_after_another_between_rounds) {
  const std::int64_t before = testing::aligned_allocations();
  for_every_world([](const activation& starts, rank size, std::uint64_t seed) {
    partial_bench bench(size, seed, starts, lag_policy::accumulate);
    account books(bench);
    while (!bench.present.empty()) {
      const round_no open = bench.at(0).finished + 1;
      bench.run_round(open);
      books.collect_some();
      bench.leave(bench.present[bench.world.draw_below(bench.present.size())]);
      for (std::uint64_t steps = bench.world.draw_below(50); steps > 0; --steps) bench.world.step();
      bench.world.settle();
    }
    check_end(bench, books.totals, books.offered());
  });
  EXPECT_EQ(testing::aligned_allocations(), before) << "memory is not returned";
}

TEST(partial_leave, all_ranks_leave_at_once_in_the_middle_of_rounds) {
  for_every_world([](const activation& starts, rank size, std::uint64_t seed) {
    partial_bench bench(size, seed, starts, lag_policy::accumulate);
    account books(bench);
    for (round_no round = 1; round <= 3; ++round) {
      bench.run_round(round);
      books.collect_some();
    }
    for (rank r = 0; r < size; ++r) {
      if (bench.world.draw_below(2) == 0) bench.offer(r);
      bench.leave(r);
      for (std::uint64_t steps = bench.world.draw_below(4); steps > 0; --steps) bench.world.step();
    }
    check_end(bench, books.totals, books.offered());
  });
}

TEST(partial_leave, all_ranks_leave_before_the_first_call) {
  for_every_world([](const activation& starts, rank size, std::uint64_t seed) {
    partial_bench bench(size, seed, starts, lag_policy::latest);
    for (rank r = size; r-- > 0;) bench.leave(r);
    check_end(bench, std::vector<vector_of_integers>(static_cast<std::size_t>(size), vector_of_integers(3)),
              vector_of_integers(3));
  });
}

TEST(partial_leave, what_was_offered_before_leaving_is_still_sent) {
  for (const rank size : {1, 2, 3, 5, 7})
    for (const activation& starts : activations_for(size, 12)) {
      partial_bench bench(size, 12, starts, lag_policy::accumulate);
      account books(bench);
      for (rank r = 0; r < size; ++r) {
        bench.offer(r);
        bench.offer(r);
        bench.leave(r);
      }
      check_end(bench, books.totals, books.offered());
    }
}

// Rounds continue at the pace of the ranks that stay. A rank that has left counts as a caller of every round, but never
// starts a round.
TEST(partial_leave, a_rank_that_has_left_serves_the_others_and_starts_no_rounds_of_its_own) {
  for (const rank size : {2, 3, 5, 8})
    for (const activation& starts : activations_for(size, 7))
      for (rank early = 0; early < size; ++early) {
        const ::testing::ScopedTrace trace(__FILE__, __LINE__, text_of(starts, size, 7));
        partial_bench bench(size, 7, starts, lag_policy::accumulate);
        account books(bench);
        bench.leave(early);
        bench.world.settle();
        for (int i = 0; i < 10; ++i) {
          const round_no open = bench.at(0).finished + 1;
          for (const rank r : bench.present) bench.offer(r);
          for (const rank r : bench.present) bench.call(r, open);
          ASSERT_TRUE(bench.run_until_round(open));
          bench.world.settle();
          ASSERT_EQ(bench.at(0).finished, open) << bench.world.describe();
          books.collect_some();
        }
        const auto others = bench.present;
        for (const rank r : others) bench.leave(r);
        check_end(bench, books.totals, books.offered());
      }
}

TEST(partial_leave, an_instance_that_serves_is_not_removed) {
  partial_bench bench(3, 2, {activation_policy::solo, 0}, lag_policy::latest);
  for (const rank r : {0, 1}) bench.leave(r);
  bench.world.settle();
  for (const rank r : {0, 1, 2}) EXPECT_EQ(bench.world.at(r).remove(bench.at(r)), status::busy);
  bench.leave(2);
  ASSERT_TRUE(bench.world.run_until([&] { return bench.is_closed(); }));
  bench.remove();
}

TEST(partial_leave, ranks_that_have_closed_may_be_removed_while_others_are_closing) {
  for (const std::uint64_t seed : {1u, 2u, 3u, 4u, 5u})
    for (const rank size : {2, 3, 5, 8}) {
      partial_bench bench(size, seed, {activation_policy::solo, 0}, lag_policy::latest);
      bench.world.set_pace(0, 20);
      for (rank r = 0; r < size; ++r) bench.leave(r);
      std::vector<bool> is_gone(bench.its.size());
      std::size_t gone = 0;
      for (int n = 0; gone < bench.its.size(); ++n) {
        ASSERT_LT(n, 100'000) << bench.world.describe();
        bench.world.step();
        for (std::size_t r = 0; r < is_gone.size(); ++r)
          if (!is_gone[r] && bench.its[r]->finished == k_last_round &&
              bench.world.at(static_cast<rank>(r)).remove(*bench.its[r]) == status::ok) {
            is_gone[r] = true;
            ++gone;
            bench.world.forget(static_cast<rank>(r), bench.its[r]);
          }
      }
      EXPECT_EQ(bench.world.net().edges(), 0u);
      EXPECT_EQ(bench.world.net().in_flight(), 0u);
    }
}

TEST(partial_leave, an_instance_that_fails_while_it_closes_has_every_buffer_once) {
  for (const std::uint64_t seed : {1u, 2u, 3u})
    for (const rank size : {3, 5}) {
      partial_bench bench(size, seed, {activation_policy::solo, 0}, lag_policy::latest);
      bench.world.set_pace(0, 20);
      for (rank r = 0; r < size; ++r) bench.leave(r);
      const auto is_closing = [](const instance* one) { return one->phase == phase::closing; };
      ASSERT_TRUE(bench.world.run_until([&] { return std::ranges::any_of(bench.its, is_closing); }));
      const auto who = static_cast<rank>(std::ranges::find_if(bench.its, is_closing) - bench.its.begin());
      instance& one = bench.at(who);
      bench.world.at(who).lose(one, (who + 1) % size);
      bench.world.at(who).strip(one);
      std::vector<std::byte*> all = one.partial->fragments.front().results->memory();
      std::ranges::sort(all);
      EXPECT_EQ(std::ranges::adjacent_find(all), all.end()) << bench.world.describe();
      EXPECT_EQ(one.owned.size(), contribution::k_buffers + all.size());
    }
}

TEST(partial, another_schedule_may_come_after_one_has_gone) {
  lockstep_world world(5, 3);
  for (int i = 0; i < 4; ++i) {
    const auto its = world.commit([&](rank r) {
      return commit_request{
          "partial", partial_allreduce({r, 5}, {2, dtype::i64, kernel::sum, false}, {activation_policy::solo, 0})};
    });
    ASSERT_FALSE(its.empty());
    for (rank r = 0; r < 5; ++r) {
      its[static_cast<std::size_t>(r)]->partial->fragments.front().offers->leave();
      its[static_cast<std::size_t>(r)]->called.store(k_last_round);
      world.at(r).post(*its[static_cast<std::size_t>(r)]);
    }
    ASSERT_TRUE(world.run_until(
        [&] { return std::ranges::all_of(its, [](auto* it) { return it->finished == k_last_round; }); }));
    world.remove(its);
    EXPECT_EQ(world.net().edges(), 0u);
  }
}

// A copy may be replaced by a swap of memory. An output must keep its memory, because the result is published in this
// memory.
TEST(partial, a_result_that_is_used_again_is_not_lost) {
  lockstep_world world(1, 3);
  builder to({0, 1}, "again");
  const buffer_id input = to.input(dtype::i64, 2), output = to.output(dtype::i64, 2), rest = to.scratch(dtype::i64, 2);
  const std::uint64_t two = 2;
  const op_id gate = to.capture(kernel::sum, {input, 0}, two, {to.call()});
  to.copy({output, 0}, {rest, 0}, two, {to.copy({input, 0}, {output, 0}, two, {gate})});
  to.set_activation({activation_policy::full});
  to.declare_synchronising();
  const auto its = world.commit([&](rank) { return commit_request{"again", to.compile()}; });
  ASSERT_FALSE(its.empty());
  const vector_of_integers offered{7, 8};
  its[0]->partial->fragments.front().offers->offer(reinterpret_cast<const std::byte*>(offered.data()));
  lockstep_world::start(world.at(0), *its[0]);
  ASSERT_TRUE(world.run_until([&] { return its[0]->finished >= 1; }));
  vector_of_integers result(2);
  ASSERT_TRUE(its[0]->partial->fragments.front().results->collect(reinterpret_cast<std::byte*>(result.data())));
  EXPECT_EQ(result, offered);
}

}  // namespace
}  // namespace lsched
