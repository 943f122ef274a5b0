// Sparse allreduces through the C++ headers, and the training step on top of them, with threads as ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <future>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "bindings/cpp/lsched_sparse.hpp"
#include "tests/support/cpp_ranks.h"

namespace {

using namespace std::chrono_literals;
using lsched::rate_place;

constexpr std::chrono::seconds k_limit = 20s;
constexpr std::size_t k_count = 300;

void as_ranks(std::size_t ranks, const std::function<void(lsched::world&, std::size_t)>& body) {
  lsched::testing::as_ranks(static_cast<std::int32_t>(ranks),
                            [&](lsched::world& world) { body(world, static_cast<std::size_t>(world.rank())); });
}

template <class T>
using by_rank = std::vector<std::vector<T>>;

/// Not two of the same magnitude, other ones in each round.
template <class T>
std::vector<T> draw(std::size_t rank, std::size_t round, std::size_t count = k_count) {
  std::mt19937 bits(static_cast<unsigned>(1 + rank + 100 * round));
  std::normal_distribution<double> normal;
  std::vector<T> all(count);
  for (T& it : all) it = static_cast<T>(normal(bits));
  return all;
}

template <class T>
std::vector<T> draw_integers(std::size_t rank, std::size_t round, std::size_t count = k_count) {
  std::vector<T> all = draw<T>(rank, round, count);
  for (T& it : all) it = std::round(it * 100);
  return all;
}

template <class T>
std::vector<T> copy_of(std::span<const T> all) {
  return {all.begin(), all.end()};
}

template <class T>
bool is_same(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

template <class T>
void expect_replicas(const by_rank<T>& all) {
  for (const std::vector<T>& it : all) EXPECT_TRUE(is_same(it, all.front()));
}

bool is_part_of(const std::string& text, const char* words) { return text.find(words) != std::string::npos; }

// --- the schedule --------------------------------------------------------------------------------------------

static_assert(std::is_nothrow_move_constructible_v<lsched::sparse_allreduce<float>>);
static_assert(!std::is_copy_constructible_v<lsched::sparse_allreduce<float>>);
static_assert(std::is_move_constructible_v<lsched::sparse_sgd<float>>);
static_assert(!std::is_copy_constructible_v<lsched::sparse_sgd<float>>);

class Sparse : public ::testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Sparse, ::testing::Values(1, 2, 3, 5));

TEST_P(Sparse, what_goes_in_comes_out_or_stays) {
  by_rank<double> given(GetParam(), std::vector<double>(k_count)), updates = given, residuals = given;
  as_ranks(GetParam(), [&](lsched::world& world, std::size_t r) {
    std::vector<double> gradient(k_count), update(k_count);
    auto reduce = world.sparse<double>(gradient, update, 20, {.algorithm = "oktopk", .scale = 2});
    for (std::size_t round = 1; round <= 4; ++round) {
      std::ranges::copy(draw_integers<double>(r, round), gradient.begin());
      if (round % 2 == 0)
        reduce.run(k_limit);
      else
        reduce.start().wait(k_limit);
      for (std::size_t i = 0; i < k_count; ++i) given[r][i] += 2 * gradient[i], updates[r][i] += update[i];
    }
    residuals[r] = copy_of<double>(reduce.residual());
    const lsched_sparse_stats seen = reduce.stats();
    EXPECT_EQ(seen.rounds, 4u);
    EXPECT_EQ(seen.item_bytes_sent > 0, world.size() > 1);
    EXPECT_TRUE(is_part_of(reduce.print(), "oktopk"));
  });
  expect_replicas(updates);
  const auto ranks = static_cast<double>(GetParam());
  for (std::size_t i = 0; i < k_count; ++i) {
    double in = 0, left = 0;
    for (std::size_t r = 0; r < GetParam(); ++r) in += given[r][i], left += residuals[r][i];
    ASSERT_NEAR(in, ranks * updates[0][i] + left, 1e-9) << "element " << i;
  }
}

static_assert(std::is_nothrow_move_constructible_v<lsched::partial_sparse_allreduce<float>>);

TEST_P(Sparse, what_is_offered_comes_out_or_stays) {
  by_rank<double> given(GetParam(), std::vector<double>(k_count)), updates = given, residuals = given;
  as_ranks(GetParam(), [&](lsched::world& world, std::size_t r) {
    auto reduce = world.partial_sparse<double>(
        k_count, 20, {.activation = "majority", .lag = LSCHED_ACCUMULATE, .seed = 3}, {.algorithm = "topka"});
    std::vector<double> update(k_count);
    const auto take = [&](const lsched::report& told) {
      for (std::size_t i = 0; i < k_count && told.has_result; ++i) updates[r][i] += update[i];
      return told;
    };
    for (std::size_t round = 1; round <= 4; ++round) {
      const std::vector<double> gradient = draw_integers<double>(r, round);
      for (std::size_t i = 0; i < k_count; ++i) given[r][i] += gradient[i];
      take(reduce.collect(reduce.offer(gradient), update, k_limit));
    }
    EXPECT_EQ(take(reduce.flush(update, k_limit)).last.ranks, GetParam());
    residuals[r] = copy_of<double>(reduce.residual());
    const std::vector<std::byte> image = reduce.save();
    auto other = world.partial_sparse<double>(k_count, 20, {}, {.algorithm = "topka", .image = image});
    EXPECT_EQ(residuals[r], copy_of<double>(other.residual()));
    EXPECT_EQ(reduce.traffic().item_bytes_sent > 0, world.size() > 1);
    EXPECT_TRUE(is_part_of(reduce.print(), "partial_sparse_allreduce/topka"));
    reduce.flush(update, k_limit);  // no round begins before all have looked
    reduce.close(k_limit);
  });
  const auto ranks = static_cast<double>(GetParam());
  for (std::size_t i = 0; i < k_count; ++i) {
    double in = 0, left = 0;
    for (std::size_t r = 0; r < GetParam(); ++r) in += given[r][i], left += residuals[r][i];
    for (std::size_t r = 0; r < GetParam(); ++r) ASSERT_NEAR(in, ranks * updates[r][i] + left, 1e-9) << "element " << i;
  }
}

TEST(Sparse, of_a_partial_one_no_other_options_are_taken) {
  as_ranks(1, [&](lsched::world& world, std::size_t) {
    EXPECT_THROW((void)world.partial_sparse<float>(k_count, 2, {.collective = "adasum"}), lsched::error);
    EXPECT_THROW((void)world.partial_sparse<float>(k_count, 2, {.buckets = {k_count}}), lsched::error);
  });
}

TEST(Sparse, options_are_those_of_the_desc) {
  as_ranks(3, [&](lsched::world& world, std::size_t r) {
    std::vector<float> gradient(k_count), update(k_count);
    const auto names = [&](const lsched::sparse_options& how) {
      gradient = draw<float>(r, 1);
      auto reduce = world.sparse<float>(gradient, update, 20, how);
      reduce.run(k_limit);
      return reduce.print();
    };
    for (const char* algorithm : {"topka", "topkdsa", "gtopk", "gtopk_published", "gaussiank"})
      EXPECT_TRUE(is_part_of(names({.algorithm = algorithm}), algorithm));
    EXPECT_NE(names({.algorithm = "oktopk"}), names({.algorithm = "oktopk", .capacity = LSCHED_DEFER}));
    EXPECT_NE(names({.algorithm = "oktopk"}), names({.algorithm = "oktopk", .period = 3}));
    EXPECT_NE(names({.algorithm = "oktopk"}), names({.algorithm = "oktopk", .boundaries = LSCHED_AVERAGED}));
    EXPECT_NE(names({.algorithm = "oktopk"}), names({.algorithm = "oktopk", .selection = LSCHED_REUSED, .reuse = 3}));
    EXPECT_NE(names({.algorithm = "oktopk"}), names({.algorithm = "oktopk", .bucket = 1}));
    const auto refusal = [&](const lsched::sparse_options& how) -> std::string {
      try {
        names(how);
      } catch (const lsched::error& why) {
        EXPECT_EQ(why.status(), LSCHED_ERR_ARGUMENT);
        return why.what();
      }
      return "none";
    };
    EXPECT_TRUE(is_part_of(refusal({.algorithm = "ring"}), "there is no sparse allreduce \"ring\""));
    EXPECT_TRUE(is_part_of(refusal({.scale = INFINITY}), "scale is not finite"));
    EXPECT_TRUE(is_part_of(refusal({.algorithm = "oktopk", .reuse = 3}), "LSCHED_REUSED"));
    EXPECT_TRUE(is_part_of(refusal({.algorithm = "topka", .balance = LSCHED_BALANCE_NEVER}), "leave them 0"));
    EXPECT_EQ(refusal({.algorithm = "oktopk", .balance = LSCHED_BALANCE_NEVER}), "none");
  });
}

TEST(Sparse, moves_and_rebinds) {
  as_ranks(3, [&](lsched::world& world, std::size_t r) {
    std::vector<float> gradient = draw<float>(r, 1), update(k_count, -1);
    lsched::sparse_allreduce<float> none, reduce = world.sparse<float>(gradient, update, 20, {.algorithm = "topka"});
    EXPECT_FALSE(none);
    EXPECT_THROW((void)none.residual(), lsched::error);
    reduce.run(k_limit);
    none = std::move(reduce);
    std::vector<float> other = draw<float>(r, 2), written(k_count, -1);
    none.rebind(other, written);
    EXPECT_THROW(none.rebind(std::span<const float>(other).first(7), written), std::invalid_argument);
    EXPECT_THROW(none.rebind(other, std::span(written).first(7)), std::invalid_argument);
    none.run(k_limit);
    EXPECT_EQ(std::ranges::count(written, -1.0f), 0);
    EXPECT_EQ(none.residual().size(), k_count);
    none.close();
  });
}

TEST(Sparse, who_errs_learns_it_before_anything_is_sent) {
  as_ranks(3, [&](lsched::world& world, std::size_t r) {
    std::vector<float> gradient = draw<float>(r, 1), update(k_count);
    EXPECT_THROW((void)world.sparse<float>(gradient, std::span(update).first(7), 20), std::invalid_argument);
    auto reduce = world.sparse<float>(gradient, update, 20);
    reduce.run(k_limit);  // nothing of it is left behind
    EXPECT_THROW((void)world.sparse<float>(gradient, update, 20, {.image = std::vector<std::byte>(9)}), lsched::error);
    EXPECT_THROW((void)world.sparse<float>(gradient, update, 20 + r), lsched::error);
    EXPECT_THROW((void)world.sparse<float>(gradient, update, 20, {.algorithm = r == 1 ? "ring" : "topka"}),
                 lsched::error);
  });
}

TEST(SparseItems, are_those_of_a_density) {
  EXPECT_EQ(lsched::items_of(0.01, 1000), 10u);
  EXPECT_EQ(lsched::items_of(0.01, 10), 1u);
  EXPECT_EQ(lsched::items_of(0.29, 100), 29u);
  EXPECT_EQ(lsched::items_of(1, 1001), 1001u);
  EXPECT_EQ(lsched::items_of(0, 1000), 0u);
  EXPECT_EQ(lsched::items_of(0.5, 0), 0u);
  EXPECT_THROW(lsched::items_of(1.1, 10), std::invalid_argument);
  EXPECT_THROW(lsched::items_of(NAN, 10), std::invalid_argument);
}

// --- the step ------------------------------------------------------------------------------------------------

/// The first k elements of all by magnitude, zero elsewhere.
template <class T>
std::vector<T> most_of(const std::vector<T>& all, std::size_t k) {
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return std::fabs(all[a]) > std::fabs(all[b]); });
  std::vector<T> chosen(all.size());
  for (std::size_t i = 0; i < std::min(k, order.size()); ++i) chosen[order[i]] = all[order[i]];
  return chosen;
}

double rate_of(std::size_t step) { return 0.1 / static_cast<double>(1 + step); }

/// Algorithm 2 of all replicas in one place: their weights after so many steps of changing rates.
std::vector<double> emulate(std::size_t ranks, std::size_t k, rate_place place, std::size_t steps) {
  std::vector<double> weights(k_count, 1);
  by_rank<double> residuals(ranks, std::vector<double>(k_count));
  for (std::size_t step = 0; step < steps; ++step) {
    by_rank<double> sent(ranks);
    std::vector<double> sum(k_count);
    for (std::size_t r = 0; r < ranks; ++r) {
      const std::vector<double> gradient = draw<double>(r, step);
      for (std::size_t i = 0; i < k_count; ++i)
        residuals[r][i] += (place == rate_place::inside ? rate_of(step) : 1) * gradient[i];
      sent[r] = most_of(residuals[r], k);
      for (std::size_t i = 0; i < k_count; ++i) sum[i] += sent[r][i];
    }
    sum = most_of(sum, k);
    for (std::size_t i = 0; i < k_count; ++i) {
      for (std::size_t r = 0; r < ranks; ++r)
        if (sum[i] != 0) residuals[r][i] -= sent[r][i];
      weights[i] -= (place == rate_place::inside ? 1 : rate_of(step)) * sum[i] / static_cast<double>(ranks);
    }
  }
  return weights;
}

/// Rank r's weights after so many steps; all but rank 0 begin with something else.
template <class T>
by_rank<T> train(std::size_t ranks, std::uint64_t k, const lsched::sparse_sgd_options& how, std::size_t steps) {
  by_rank<T> weights(ranks);
  as_ranks(ranks, [&](lsched::world& world, std::size_t r) {
    weights[r].assign(k_count, static_cast<T>(1 + r));
    lsched::sparse_sgd<T> training(world, weights[r], k, how, k_limit);
    for (std::size_t step = 0; step < steps; ++step) training.step(draw<T>(r, step), rate_of(step), k_limit);
    training.close();
  });
  return weights;
}

class SparseSgd : public ::testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Ranks, SparseSgd, ::testing::Values(1, 2, 3, 5));

TEST_P(SparseSgd, is_algorithm_2_with_the_rate_in_either_place) {
  constexpr std::size_t k_steps = 12;
  for (const rate_place place : {rate_place::inside, rate_place::outside})
    for (const std::uint64_t k : {std::uint64_t{12}, std::uint64_t{k_count}, std::uint64_t{3 * k_count}}) {
      const lsched::sparse_sgd_options how{.allreduce = {.algorithm = "oktopk"}, .rate = place};
      const by_rank<double> found = train<double>(GetParam(), k, how, k_steps);
      expect_replicas(found);
      const std::vector<double> wanted = emulate(GetParam(), k, place, k_steps);
      for (std::size_t i = 0; i < k_count; ++i) ASSERT_NEAR(found[0][i], wanted[i], 1e-13) << "k " << k << ", at " << i;
      expect_replicas(train<float>(GetParam(), k, how, k_steps));
    }
  EXPECT_NE(emulate(GetParam(), 12, rate_place::inside, k_steps), emulate(GetParam(), 12, rate_place::outside, k_steps))
      << "the rates do not change enough to tell them apart";
}

TEST_P(SparseSgd, loses_nothing) {
  by_rank<double> given(GetParam(), std::vector<double>(k_count)), weights = given, residuals = given;
  as_ranks(GetParam(), [&](lsched::world& world, std::size_t r) {
    weights[r].assign(k_count, 0);
    lsched::sparse_sgd<double> training(world, weights[r], 20, {}, k_limit);
    for (const double it : training.update()) EXPECT_EQ(it, 0);
    for (std::size_t step = 0; step < 5; ++step) {
      const std::vector<double> gradient = draw_integers<double>(r, step), before = weights[r];
      training.step(gradient, 1, k_limit);
      for (std::size_t i = 0; i < k_count; ++i) {
        given[r][i] += gradient[i];
        ASSERT_EQ(weights[r][i], before[i] - training.update()[i]);
      }
    }
    residuals[r] = copy_of<double>(training.residual());
    EXPECT_EQ(training.stats().rounds, 5u);
  });
  expect_replicas(weights);
  for (std::size_t i = 0; i < k_count; ++i) {
    double in = 0, left = 0;
    for (std::size_t r = 0; r < GetParam(); ++r) in += given[r][i], left += residuals[r][i];
    ASSERT_NEAR(in, left - weights[0][i] * static_cast<double>(GetParam()), 1e-9) << "element " << i;
  }
}

TEST_P(SparseSgd, goes_on_from_what_was_saved) {
  for (const char* algorithm : {"oktopk", "topkdsa", "gtopk", "gaussiank"}) {
    by_rank<float> weights(GetParam()), resumed(GetParam());
    as_ranks(GetParam(), [&](lsched::world& world, std::size_t r) {
      lsched::sparse_sgd_options how{.allreduce = {.algorithm = algorithm}};
      weights[r].assign(k_count, 1);
      lsched::sparse_sgd<float> training(world, weights[r], 20, how, k_limit);
      for (std::size_t step = 0; step < 3; ++step) training.step(draw<float>(r, step), rate_of(step), k_limit);
      const std::vector<std::byte> image = training.save();
      resumed[r] = weights[r];
      how.allreduce.image = image;
      lsched::sparse_sgd<float> other(world, resumed[r], 20, how, k_limit);
      for (std::size_t step = 3; step < 6; ++step) {
        training.step(draw<float>(r, step), rate_of(step), k_limit);
        other.step(draw<float>(r, step), rate_of(step), k_limit);
      }
      EXPECT_TRUE(is_same(copy_of<float>(training.residual()), copy_of<float>(other.residual()))) << algorithm;
      EXPECT_TRUE(is_same(weights[r], resumed[r])) << algorithm;
    });
    expect_replicas(resumed);
  }
}

TEST_P(SparseSgd, begins_with_the_weights_of_rank_0_unless_told_not_to) {
  for (const bool broadcasts : {true, false})
    as_ranks(GetParam(), [&](lsched::world& world, std::size_t r) {
      std::vector<float> weights(7, static_cast<float>(1 + r));
      const lsched::sparse_sgd<float> training(world, weights, 2, {.broadcasts_weights = broadcasts}, k_limit);
      EXPECT_EQ(weights, std::vector<float>(7, broadcasts ? 1 : static_cast<float>(1 + r)));
    });
}

TEST_P(SparseSgd, nothing_is_a_count_like_any_other) {
  as_ranks(GetParam(), [&](lsched::world& world, std::size_t r) {
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, k_count})
      for (const std::uint64_t k : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{2 * k_count}}) {
        std::vector<double> weights(count, 5);
        lsched::sparse_sgd<double> training(world, weights, k, {.allreduce = {.nans = LSCHED_NAN_ERROR}}, k_limit);
        for (std::size_t step = 0; step < 3; ++step) training.step(draw<double>(r, step, count), 1, k_limit);
        EXPECT_EQ(std::ranges::count(weights, 5.0) == static_cast<std::ptrdiff_t>(count), k == 0 || count == 0);
        const std::vector<std::byte> image = training.save();
        (void)lsched::sparse_sgd<double>(world, weights, k, {.allreduce = {.image = image}}, k_limit);
      }
  });
}

TEST(SparseSgd, takes_momentum_after_the_step_as_its_header_says) {
  constexpr double k_momentum = 0.5, k_rate = 0.25;
  for (const rate_place place : {rate_place::inside, rate_place::outside})
    as_ranks(1, [&](lsched::world& world, std::size_t) {
      std::vector<double> weights(k_count), velocity(k_count), wanted(k_count), of_wanted(k_count);
      lsched::sparse_sgd<double> training(world, weights, k_count, {.rate = place}, k_limit);
      for (std::size_t step = 0; step < 4; ++step) {
        const std::vector<double> gradient = draw_integers<double>(0, step);
        training.step(gradient, k_rate, k_limit);
        for (std::size_t i = 0; i < k_count; ++i) {
          velocity[i] *= k_momentum;
          weights[i] -= (place == rate_place::inside ? 1 : k_rate) * velocity[i];
          velocity[i] += training.update()[i];
          of_wanted[i] = k_momentum * of_wanted[i] + gradient[i];
          wanted[i] -= k_rate * of_wanted[i];
        }
        ASSERT_EQ(weights, wanted) << "step " << step;
      }
    });
}

// --- what is not finite --------------------------------------------------------------------------------------

constexpr std::size_t k_bad = 17;

/// Steps once well, then with something bad on the last rank, then well. Calls seen(training, weights, step).
using step_witness = std::function<void(lsched::sparse_sgd<float>&, const std::vector<float>&, std::size_t)>;
void step_with(float bad, std::size_t ranks, const lsched::sparse_sgd_options& how, const step_witness& seen) {
  as_ranks(ranks, [&](lsched::world& world, std::size_t r) {
    std::vector<float> weights(k_count, 1);
    lsched::sparse_sgd<float> training(world, weights, 20, how, k_limit);
    for (std::size_t step = 0; step < 3; ++step) {
      std::vector<float> gradient = draw<float>(r, step), before = weights;
      if (step == 1 && r + 1 == ranks) gradient[k_bad] = bad;
      const bool is_refused = how.allreduce.nans == LSCHED_NAN_ERROR && step == 1;
      try {
        training.step(gradient, 0.5, k_limit);
        EXPECT_FALSE(is_refused);
      } catch (const lsched::non_finite_update& why) {
        EXPECT_TRUE(is_refused);
        EXPECT_EQ(why.status(), LSCHED_ERR_NOT_FINITE);
        EXPECT_TRUE(is_part_of(why.what(), "element 17 of the sum is not finite"));
        EXPECT_TRUE(is_same(weights, before));
      }
      seen(training, weights, step);
    }
  });
}

TEST_P(SparseSgd, adds_nan_to_the_weights_of_all_ranks) {
  by_rank<float> last(GetParam());
  std::atomic<std::size_t> rank{0};
  step_with(NAN, GetParam(), {}, [&](auto& training, const std::vector<float>& weights, std::size_t step) {
    EXPECT_EQ(std::isnan(training.update()[k_bad]), step == 1);
    EXPECT_EQ(std::isnan(weights[k_bad]), step > 0);
    EXPECT_FALSE(std::isnan(training.residual()[k_bad])) << "it has been sent";
    if (step == 2) last[rank++] = weights;
  });
  expect_replicas(last);
}

TEST_P(SparseSgd, refuses_what_is_not_finite_on_all_ranks) {
  for (const char* algorithm : {"oktopk", "topka", "topkdsa", "gtopk", "gaussiank"})
    for (const float bad : {NAN, INFINITY, -INFINITY})
      step_with(bad, GetParam(), {.allreduce = {.algorithm = algorithm, .nans = LSCHED_NAN_ERROR}},
                [&](auto& training, const std::vector<float>& weights, auto step) {
                  const auto zeros = std::ranges::count(training.update(), 0.0f);
                  EXPECT_EQ(zeros == static_cast<std::ptrdiff_t>(k_count), step == 1) << algorithm;
                  for (const float it : training.residual()) ASSERT_TRUE(std::isfinite(it));
                  for (const float it : weights) ASSERT_TRUE(std::isfinite(it));
                });
}

TEST_P(SparseSgd, makes_up_for_a_refused_step) {
  by_rank<double> given(GetParam(), std::vector<double>(k_count)), weights = given, residuals = given;
  as_ranks(GetParam(), [&](lsched::world& world, std::size_t r) {
    lsched::sparse_sgd<double> training(world, weights[r], 20, {.allreduce = {.nans = LSCHED_NAN_ERROR}}, k_limit);
    std::size_t refused = 0;
    for (std::size_t step = 0; step < 5; ++step) {
      std::vector<double> gradient = draw_integers<double>(r, step);
      gradient[k_bad] = step == 2 && r == 0 ? NAN : 0;
      try {
        training.step(gradient, 1, k_limit);
      } catch (const lsched::non_finite_update&) {
        ++refused;
      }
      gradient[k_bad] = 0;
      for (std::size_t i = 0; i < k_count; ++i) given[r][i] += gradient[i];
    }
    EXPECT_EQ(refused, 1u);
    residuals[r] = copy_of<double>(training.residual());
  });
  expect_replicas(weights);
  for (std::size_t i = 0; i < k_count; ++i) {
    double in = 0, left = 0;
    for (std::size_t r = 0; r < GetParam(); ++r) in += given[r][i], left += residuals[r][i];
    ASSERT_NEAR(in, left - weights[0][i] * static_cast<double>(GetParam()), 1e-9) << "element " << i;
  }
}

TEST_P(SparseSgd, keeps_nan_in_the_residual_if_they_are_ignored) {
  const lsched::sparse_sgd_options how{.allreduce = {.algorithm = "oktopk", .nans = LSCHED_NAN_IGNORE}};
  std::atomic<std::size_t> ranks_with_nan{0};
  step_with(NAN, GetParam(), how, [&](auto& training, const std::vector<float>& weights, std::size_t step) {
    for (const float it : training.update()) ASSERT_FALSE(std::isnan(it));
    for (const float it : weights) ASSERT_FALSE(std::isnan(it));
    if (step == 2 && std::isnan(training.residual()[k_bad])) ++ranks_with_nan;
  });
  EXPECT_EQ(ranks_with_nan, 1u);
}

// --- calls ---------------------------------------------------------------------------------------------------

TEST(SparseSgd, a_wrong_step_is_refused_before_anything_is_sent) {
  as_ranks(3, [&](lsched::world& world, std::size_t r) {
    std::vector<float> weights(k_count), gradient = draw<float>(r, 1);
    lsched::sparse_sgd<float> training(world, weights, 20, {}, k_limit);
    EXPECT_THROW(training.step(std::span<const float>(gradient).first(9), 1, k_limit), std::invalid_argument);
    EXPECT_THROW(training.step(gradient, NAN, k_limit), std::invalid_argument);
    EXPECT_THROW(training.step(gradient, 1e300, k_limit), std::invalid_argument) << "infinite as a float";
    for (const float it : training.residual()) ASSERT_EQ(it, 0);
    training.step(gradient, 1, k_limit);
    EXPECT_EQ(training.stats().rounds, 1u);
  });
}

TEST(SparseSgd, ranks_that_want_something_else_are_all_told) {
  as_ranks(3, [&](lsched::world& world, std::size_t r) {
    std::vector<float> weights(k_count);
    try {
      const lsched::sparse_sgd<float> training(world, weights, r == 1 ? 10 : 20, {}, k_limit);
      ADD_FAILURE() << "nobody has noticed";
    } catch (const lsched::error& why) {
      EXPECT_EQ(why.status(), LSCHED_ERR_MISMATCH);
    }
  });
}

TEST(SparseSgd, waits_on_after_a_timeout) {
  by_rank<float> weights(3);
  std::promise<void> given_up;
  const std::shared_future<void> rank_0_has_given_up = given_up.get_future().share();
  as_ranks(3, [&](lsched::world& world, std::size_t r) {
    weights[r].assign(k_count, 1);
    lsched::sparse_sgd<float> training(world, weights[r], 20, {.rate = rate_place::outside}, k_limit);
    const std::vector<float> gradient = draw<float>(r, 1), before = weights[r];
    if (r == 0) {
      EXPECT_THROW(training.step(gradient, 0.5, 1ms), lsched::error);
      EXPECT_THROW(training.close(), lsched::error);
      EXPECT_THROW(training.residual(), lsched::error);
      EXPECT_THROW(training.save(), lsched::error);
      EXPECT_TRUE(is_same(weights[r], before));
      given_up.set_value();
    }
    EXPECT_EQ(rank_0_has_given_up.wait_for(k_limit), std::future_status::ready);
    training.step(r == 0 ? std::vector<float>(k_count, 1000) : gradient, r == 0 ? 7 : 0.5, k_limit);
    EXPECT_FALSE(is_same(weights[r], before));
  });
  expect_replicas(weights);
}

TEST(SparseSgd, moves) {
  by_rank<float> weights(3);
  as_ranks(3, [&](lsched::world& world, std::size_t r) {
    weights[r].assign(k_count, 1);
    lsched::sparse_sgd<float> training(world, weights[r], 20, {}, k_limit);
    training.step(draw<float>(r, 0), rate_of(0), k_limit);
    lsched::sparse_sgd<float> moved(std::move(training));
    moved.step(draw<float>(r, 1), rate_of(1), k_limit);
    moved.close();
  });
  expect_replicas(weights);
  EXPECT_EQ(weights, train<float>(3, 20, {}, 2));
}

}  // namespace
