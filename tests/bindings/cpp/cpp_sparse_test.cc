// Tests of sparse allreduces through the C++ API. Ranks are threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "bindings/cpp/lsched.hpp"
#include "tests/support/cpp_ranks.h"

namespace {

using namespace std::chrono_literals;

constexpr std::chrono::seconds k_limit = 20s;
constexpr std::size_t k_count = 300;

void as_ranks(std::size_t ranks, const std::function<void(lsched::world&, std::size_t)>& body) {
  lsched::testing::as_ranks(static_cast<std::int32_t>(ranks),
                            [&](lsched::world& world) { body(world, static_cast<std::size_t>(world.rank())); });
}

template <class T>
using by_rank = std::vector<std::vector<T>>;

/// Returns elements with different magnitudes. The elements differ from round to round.
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

static_assert(std::is_nothrow_move_constructible_v<lsched::sparse_allreduce<float>>);
static_assert(!std::is_copy_constructible_v<lsched::sparse_allreduce<float>>);

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
    reduce.flush(update, k_limit);  // the flush ends when all ranks have compared their results
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
    for (const char* algorithm : {"topka", "topkdsa", "gtopk", "gtopk_published"})
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
    EXPECT_TRUE(is_part_of(refusal({.algorithm = "ring"}), "sparse_allreduce has no algorithm \"ring\""));
    EXPECT_TRUE(is_part_of(refusal({.scale = INFINITY}), "scale is not finite"));
    EXPECT_TRUE(is_part_of(refusal({.algorithm = "oktopk", .reuse = 3}), "LSCHED_REUSED"));
    EXPECT_TRUE(is_part_of(refusal({.algorithm = "topka", .balance = LSCHED_BALANCE_NEVER}), "leave these members 0"));
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
    reduce.run(k_limit);  // works after the refused create
    EXPECT_THROW((void)world.sparse<float>(gradient, update, 20, {.image = std::vector<std::byte>(9)}), lsched::error);
    EXPECT_THROW((void)world.sparse<float>(gradient, update, 20 + r), lsched::error);
    EXPECT_THROW((void)world.sparse<float>(gradient, update, 20, {.algorithm = r == 1 ? "ring" : "topka"}),
                 lsched::error);
  });
}

}  // namespace
