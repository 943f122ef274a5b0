// Tests of partial sparse allreduces. Real schedules run on real engines. All ranks run in one thread, and calls and
// offers happen in random order. Reports must state which offers are in a round. The results are compared, bit by bit,
// with an execution of the steps in lockstep. No contribution may be lost at any index.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <array>
#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <numeric>

#include "collectives/sparse/sparse_allreduce.h"
#include "collectives/sparse/steps/sparse_functions.h"
#include "microbench/lockstep/lockstep.h"
#include "tests/support/enough_callers.h"
#include "tests/support/lockstep_world.h"
#include "tests/support/sampling.h"

namespace lsched::testing {
namespace {

using vector = std::vector<float>;

std::size_t wide(rank it) { return static_cast<std::size_t>(it); }

/// All ranks of a partial sparse allreduce of f32.
class partial_sparse_world {
 public:
  partial_sparse_world(const sparse_algorithm& how, const sparse_problem& problem, const activation& starts,
                       lag_rule lag, std::uint64_t seed)
      : problem_(problem), starts_(starts), world_(problem.place.size, seed), ranks_(wide(problem.place.size)) {
    its_ = world_.commit([&](rank r) {
      member& me = ranks_[wide(r)];
      sparse_problem mine = problem_;
      mine.place.self = r;
      me.state = std::make_unique<sparse_state>(mine);
      me.offered.resize(problem_.count);
      me.taken.resize(problem_.count);
      return commit_request{"partial sparse",
                            partial_sparse_allreduce(how, mine, starts),
                            {},
                            {.lag = lag, .local = how.functions(mine, *me.state)}};
    });
    present_.resize(ranks_.size());
    std::iota(present_.begin(), present_.end(), 0);
  }

  bool is_there() const { return its_.size() == ranks_.size(); }
  rank size() const { return problem_.place.size; }
  lockstep_world& world() { return world_; }
  instance& at(rank r) { return *its_[wide(r)]; }
  std::string describe() const { return world_.describe(); }

  /// Offers a gradient of small integers, many of them zero. Sums of these integers are exact.
  void offer(rank r) {
    vector gradient(problem_.count);
    for (float& it : gradient) it = world_.draw_below(3) == 0 ? static_cast<float>(world_.draw_below(201)) - 100 : 0.0f;
    offer(r, std::move(gradient));
  }
  void offer(rank r, vector gradient) {
    member& me = ranks_[wide(r)];
    at(r).partial->fragments.front().offers->offer(reinterpret_cast<const std::byte*>(gradient.data()));
    for (std::size_t i = 0; i < gradient.size(); ++i) me.offered[i] += static_cast<double>(gradient[i]);
    me.pending.push_back(std::move(gradient));
  }
  void call(rank r, round_no round) {
    if (at(r).called < round) at(r).called.store(round);
    world_.at(r).post(at(r));
  }
  void leave(rank r) {
    at(r).partial->fragments.front().offers->leave();
    call(r, k_last_round);
    std::erase(present_, r);
  }

  /// Runs a round with calls, offers and steps in random order. Some ranks call without an offer, and others offer
  /// without a call.
  bool run_round(round_no round) {
    const auto first = static_cast<rank>(world_.draw_below(ranks_.size()));
    std::vector<bool> calls = enough_callers(starts_, round, size(), at(0).present, first);
    for (const rank r : present_)
      if (world_.draw_below(3) == 0) calls[wide(r)] = true;
    for (const rank r : present_) {
      if (world_.draw_below(calls[wide(r)] ? 4 : 5) < (calls[wide(r)] ? 3u : 1u)) offer(r);
      if (calls[wide(r)]) call(r, round);
      for (std::uint64_t steps = world_.draw_below(40); steps > 0; --steps) world_.step();
      if (world_.draw_below(6) == 0) offer(r);  // the round may have taken earlier offers of the rank already
    }
    return finish_round(round);
  }
  bool finish_round(round_no round) {
    return world_.run_until(
        [&] { return std::ranges::all_of(its_, [&](const instance* it) { return it->finished.load() >= round; }); });
  }

  /// Runs a round for which all present ranks call. Afterwards no offer is pending.
  bool flush(round_no round) {
    world_.settle();
    for (const rank r : present_) call(r, round);
    return finish_round(round);
  }

  /// Collects an update. Returns nullopt if there is no new result.
  std::optional<delivered> collect(rank r) {
    member& me = ranks_[wide(r)];
    me.update.assign(problem_.count, -12345);
    const auto what = at(r).partial->fragments.front().results->collect(reinterpret_cast<std::byte*>(me.update.data()));
    if (!what) return what;
    EXPECT_FALSE(what->null) << "every round must have an update";
    for (std::size_t i = 0; i < me.update.size(); ++i)
      me.taken[i] += static_cast<double>(me.update[i]) * static_cast<double>(size());
    return what;
  }

  /// Removes the oldest `offers` pending gradients and returns their sum, or an empty vector for 0 offers.
  vector take_pending(rank r, std::uint64_t offers) {
    std::deque<vector>& pending = ranks_[wide(r)].pending;
    vector sum(offers == 0 ? 0 : problem_.count);
    EXPECT_LE(offers, pending.size());
    for (; offers > 0 && !pending.empty(); --offers, pending.pop_front())
      std::ranges::transform(sum, pending.front(), sum.begin(), std::plus<>{});
    return sum;
  }

  const vector& update(rank r) const { return ranks_[wide(r)].update; }
  std::span<const float> residual(rank r) const {
    return {static_cast<const float*>(ranks_[wide(r)].state->residual()), problem_.count};
  }

  /// For each element, compares the sum of all offers with the sum of all residuals and of the updates that rank
  /// `account` has collected. Returns the largest difference. If the algorithm quantises values (`has_fractions`),
  /// differences due to rounded quotients remain.
  double most_lost(rank account, bool has_fractions = false) const {
    double most = 0;
    for (std::size_t i = 0; i < problem_.count; ++i) {
      double offered = 0, left = 0;
      for (rank r = 0; r < problem_.place.size; ++r) {
        offered += ranks_[wide(r)].offered[i];
        left += static_cast<double>(residual(r)[i]);
      }
      // The sums are integers, but an update is a rounded quotient (sum / number of ranks). `taken` holds each update
      // times the number of ranks. Rounding `taken` restores the integers.
      const double taken = ranks_[wide(account)].taken[i];
      most = std::max(most, std::abs(offered - (has_fractions ? taken : std::round(taken)) - left));
    }
    return most;
  }

 private:
  struct member {
    std::unique_ptr<sparse_state> state;
    std::deque<vector> pending;
    std::vector<double> offered, taken;
    vector update;
  };
  sparse_problem problem_;
  activation starts_;
  lockstep_world world_;
  std::vector<member> ranks_;
  std::vector<instance*> its_;
  std::vector<rank> present_;
};

bool are_same_bits(std::span<const float> x, std::span<const float> y) {
  return x.size() == y.size() && (x.empty() || std::memcmp(x.data(), y.data(), x.size_bytes()) == 0);
}

std::vector<activation> activations_for(rank size, std::uint64_t seed) {
  const auto ranks = static_cast<std::uint32_t>(size);
  return {{.policy = activation_policy::full},
          {.policy = activation_policy::solo},
          {.policy = activation_policy::majority, .seed = seed},
          {.policy = activation_policy::quorum, .number = (ranks + 1) / 2},
          {.policy = activation_policy::all_of, .seed = seed, .number = (ranks + 1) / 2, .full_every = 3}};
}

constexpr std::array<rank, 7> k_sizes{1, 2, 3, 5, 6, 7, 8};

/// Collects the update of a round on every rank. Expects the same bits and the same report on all ranks. Returns the
/// gradient that each rank has contributed, or an empty vector for ranks that have contributed nothing.
std::vector<vector> collect_round(partial_sparse_world& world, round_no round) {
  std::vector<vector> given;
  std::vector<delivered> told;
  std::uint64_t contributors = 0, offers = 0;
  for (rank r = 0; r < world.size(); ++r) {
    const auto what = world.collect(r);
    EXPECT_TRUE(what.has_value()) << world.describe();
    if (!what) return {};
    told.push_back(*what);
    given.push_back(world.take_pending(r, what->mine));
    contributors += what->mine > 0 ? 1u : 0u;
    offers += what->mine;
  }
  for (rank r = 0; r < world.size(); ++r) {
    EXPECT_EQ(told[wide(r)].to, round);
    EXPECT_EQ(told[wide(r)].contributors, contributors) << world.describe();
    EXPECT_EQ(told[wide(r)].offers, offers) << world.describe();
    EXPECT_TRUE(are_same_bits(world.update(r), world.update(0))) << "rank " << r;
  }
  return given;
}

TEST(partial_sparse, oktopk_is_its_steps_with_what_was_captured) {
  for (const rank size : k_sizes)
    for (const activation& starts : activations_for(size, 3)) {
      const sparse_problem problem{.count = 200, .k = 13, .place = {0, size}, .period = 3, .scale = 0.5};
      partial_sparse_world world(*find_sparse("oktopk"), problem, starts, lag_policy::latest, wide(size));
      ASSERT_TRUE(world.is_there());
      if (size > 2) world.world().set_pace(size / 2, 10);
      lockstep steps(problem);
      std::size_t absent = 0;
      for (round_no round = 1; round <= 14; ++round) {
        ASSERT_TRUE(world.run_round(round));
        const std::vector<vector> given = collect_round(world, round);
        ASSERT_FALSE(HasFailure()) << words_for(starts) << ", round " << round;
        vector update(problem.count);
        std::vector<const void*> gradients;
        std::vector<void*> into(wide(size));
        into[0] = update.data();
        for (const vector& it : given) gradients.push_back(it.empty() ? nullptr : it.data());
        absent += static_cast<std::size_t>(std::ranges::count(gradients, nullptr));
        ASSERT_FALSE(steps.run(gradients, into));
        ASSERT_TRUE(are_same_bits(world.update(0), update)) << words_for(starts) << ", " << size << ", round " << round;
        for (rank r = 0; r < size; ++r)
          ASSERT_TRUE(are_same_bits(world.residual(r), {static_cast<const float*>(steps.state(r).residual()), 200}));
      }
      EXPECT_GT(absent, 0u) << "the test has no absent rank";
    }
}

/// Expects that no gradient is lost. A quotient by a power of two is exact.
void expect_nothing_lost(const partial_sparse_world& world, rank account, const sparse_algorithm& how, rank size) {
  const bool has_fractions = how.encoded_bytes != nullptr;
  const bool is_rounded = has_fractions && !std::has_single_bit(static_cast<unsigned>(size));
  ASSERT_LE(world.most_lost(account, has_fractions), is_rounded ? 1e-3 : 0) << how.name << ", " << size << " ranks";
}

TEST(partial_sparse, every_algorithm_loses_nothing_and_counts_who_is_in_it) {
  for (const sparse_algorithm& how : sparse_algorithms())
    for (const rank size : k_sizes)
      for (const activation& starts : activations_for(size, 5))
        for (const std::uint64_t k : {1u, 20u, 120u}) {
          const sparse_problem problem{.count = 90, .k = k, .place = {0, size}, .period = 2};
          const std::string where = std::string(how.name) + " " + words_for(starts) + ", " + std::to_string(size) +
                                    " ranks, k " + std::to_string(k);
          partial_sparse_world world(how, problem, starts, lag_policy::latest, k + wide(size));
          ASSERT_TRUE(world.is_there()) << where;
          for (round_no round = 1; round <= 8; ++round) {
            ASSERT_TRUE(round == 8 ? world.flush(round) : world.run_round(round)) << where;
            (void)collect_round(world, round);
            ASSERT_FALSE(HasFailure()) << where << ", round " << round;
          }
          if (how.name == "gtopk_published") continue;
          for (rank r = 0; r < size; ++r) expect_nothing_lost(world, r, how, size);
          ASSERT_FALSE(HasFatalFailure()) << where;
        }
}

/// Each rank collects after random rounds only. A collected update must be the sum of all updates since the rank's last
/// collect.
TEST(partial_sparse, updates_that_nobody_has_collected_are_added_up) {
  for (const rank size : k_sizes)
    for (const lag_rule lag : {lag_rule(lag_policy::accumulate), lag_rule(lag_policy::history, 2)}) {
      const sparse_problem problem{.count = 90, .k = 7, .place = {0, size}, .period = 2};
      const activation solo{.policy = activation_policy::solo};
      partial_sparse_world world(*find_sparse("oktopk"), problem, solo, lag, wide(size));
      ASSERT_TRUE(world.is_there());
      for (round_no round = 1; round <= 20; ++round) {
        ASSERT_TRUE(round == 20 ? world.flush(round) : world.run_round(round));
        for (rank r = 0; r < size; ++r)
          if (world.world().draw_below(3) == 0) (void)world.collect(r);
      }
      for (rank r = 0; r < size; ++r) {
        while (world.collect(r)) continue;
        EXPECT_EQ(world.most_lost(r), 0) << size << " ranks";
      }
    }
}

TEST(partial_sparse, who_sleeps_holds_nobody_up_and_joins_with_all_it_has) {
  for (const sparse_algorithm& how : sparse_algorithms())
    for (const rank size : {2, 3, 5, 6, 7}) {
      const sparse_problem problem{.count = 50, .k = 60, .place = {0, size}};  // a round sends all elements
      partial_sparse_world world(how, problem, {.policy = activation_policy::solo}, lag_policy::latest, 9);
      ASSERT_TRUE(world.is_there());
      const rank sleeper = size - 1;
      world.offer(sleeper);
      world.offer(sleeper);
      for (round_no round = 1; round <= 6; ++round) {
        if (round == 4) world.offer(sleeper);
        world.offer(0);
        world.call(0, round);
        ASSERT_TRUE(world.finish_round(round)) << how.name;
        const auto what = world.collect(1);
        ASSERT_TRUE(what);
        const bool joins = round == 1 || round == 4;
        EXPECT_EQ(what->contributors, joins ? 2u : 1u) << how.name << ", round " << round;
        EXPECT_EQ(what->offers, round == 1 ? 3u : joins ? 2u : 1u) << how.name;
      }
      if (how.name != "gtopk_published") expect_nothing_lost(world, 1, how, size);
    }
}

/// If no rank contributes a gradient to a round, the round still sends elements of residuals, including the residual of
/// a rank that has left.
TEST(partial_sparse, a_round_of_nobody_has_an_update) {
  for (const sparse_algorithm& how : sparse_algorithms())
    for (const rank size : k_sizes) {
      const sparse_problem problem{.count = 40, .k = 3, .place = {0, size}};
      partial_sparse_world world(how, problem, {.policy = activation_policy::solo}, lag_policy::latest, 4);
      ASSERT_TRUE(world.is_there());
      for (rank r = 0; r < size; ++r) world.offer(r);
      if (size > 1) world.leave(size - 1);
      for (round_no round = 1; round <= 40; ++round) {
        world.call(0, round);
        ASSERT_TRUE(world.finish_round(round)) << how.name;
        const auto what = world.collect(0);
        ASSERT_TRUE(what);
        EXPECT_EQ(what->contributors, round == 1 ? wide(size) : 0u) << how.name << ", round " << round;
      }
      if (how.name == "gtopk_published") continue;
      EXPECT_EQ(world.most_lost(0), 0) << how.name;
      for (rank r = 0; r < size; ++r)
        for (const float it : world.residual(r))
          EXPECT_EQ(it, 0) << how.name << ": 40 rounds of 3 items must move all 40 elements";
    }
}

TEST(partial_sparse, nan_passes_to_everybody) {
  for (const sparse_algorithm& how : sparse_algorithms())
    for (const rank size : {1, 2, 3, 5}) {
      const sparse_problem problem{.count = 40, .k = 4, .place = {0, size}};
      partial_sparse_world world(how, problem, {.policy = activation_policy::solo}, lag_policy::latest, 2);
      ASSERT_TRUE(world.is_there());
      vector gradient(problem.count, 1);
      gradient[0] = gradient[17] = std::numeric_limits<float>::quiet_NaN();
      world.offer(0, std::move(gradient));
      world.call(0, 1);
      ASSERT_TRUE(world.finish_round(1));
      for (rank r = 0; r < size; ++r) {
        const auto what = world.collect(r);
        ASSERT_TRUE(what);
        EXPECT_EQ(what->contributors, 1u);
        EXPECT_TRUE(std::isnan(world.update(r)[0]) && std::isnan(world.update(r)[17])) << how.name;
      }
    }
}

TEST(partial_sparse, nothing_is_a_count_like_any_other) {
  for (const sparse_algorithm& how : sparse_algorithms())
    for (const rank size : {1, 2, 3, 5})
      for (const auto& [count, k] : {std::pair{0u, 0u}, std::pair{0u, 5u}, std::pair{1u, 0u}, std::pair{1u, 1u}}) {
        const sparse_problem problem{.count = count, .k = k, .place = {0, size}};
        partial_sparse_world world(how, problem, {.policy = activation_policy::solo}, lag_policy::latest, 6);
        ASSERT_TRUE(world.is_there());
        for (round_no round = 1; round <= 6; ++round) {
          ASSERT_TRUE(world.run_round(round));
          (void)collect_round(world, round);
          ASSERT_FALSE(HasFailure()) << how.name << ", " << count << ", k " << k;
        }
      }
}

TEST(partial_sparse, soak_in_drawn_orders) {
  for (const sparse_algorithm& how : sparse_algorithms())
    for (const rank size : {3, 5, 7}) {
      const sparse_problem problem{.count = 64, .k = 5, .place = {0, size}, .period = 4};
      partial_sparse_world world(how, problem, {.policy = activation_policy::solo}, lag_policy::latest, 7);
      for (round_no round = 1; round <= 60'000; ++round) {
        ASSERT_TRUE(world.run_round(round)) << round;
        (void)collect_round(world, round);
        ASSERT_FALSE(HasFailure()) << how.name << ", round " << round;
      }
    }
}

}  // namespace
}  // namespace lsched::testing
