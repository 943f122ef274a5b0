// Tests of partial sparse allreduces through the C interface. No value may be lost, and rounds must not wait for late
// ranks. The state can be read between rounds. A wrong desc must be refused, and the error must give the reason. Ranks
// are threads. Every wait has a timeout.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "bindings/c/lsched.h"
#include "tests/support/one_bucket.h"
#include "tests/support/thread_ranks.h"

namespace {

using lsched::testing::as_ranks;
using lsched::testing::diagnostic;
using lsched::testing::k_limit_ns;
using lsched::testing::one_bucket;

constexpr std::uint64_t k_count = 300;

using vector = std::vector<float>;

/// The desc of a partial schedule, and the sparse desc that the partial desc points to.
struct request {
  explicit request(const char* algorithm, const char* activation, std::uint64_t k = 20) {
    sparse = {.struct_size = sizeof sparse, .count = k_count, .k = k, .dtype = LSCHED_F32, .algorithm = algorithm};
    partial = {.struct_size = sizeof partial,
               .collective = "sparse_allreduce",
               .count = k_count,
               .dtype = LSCHED_F32,
               .reduction = LSCHED_SUM,
               .activation = activation,
               .lag = LSCHED_ACCUMULATE};
    partial.sparse = &sparse;
  }
  request(const request&) = delete;
  lsched_sparse_desc sparse{};
  lsched_partial_desc partial{};
};

lsched_schedule* create(lsched_world* runtime, const request& what) {
  lsched_schedule* schedule = nullptr;
  diagnostic why;
  EXPECT_EQ(lsched_partial_create(runtime, &what.partial, &schedule, &why), LSCHED_OK) << why.text;
  return schedule;
}

void destroy(lsched_schedule* schedule) {
  diagnostic why;
  EXPECT_EQ(lsched_schedule_destroy(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
}

/// Returns a gradient of integers with different magnitudes.
vector drawn(std::size_t rank, std::uint64_t round) {
  vector gradient(k_count);
  for (std::size_t i = 0; i < k_count; ++i)
    gradient[i] =
        static_cast<float>(static_cast<std::int64_t>((i * 2654435761u + rank * 40503u + round * 9973u) % 201) - 100);
  return gradient;
}

void add(std::vector<double>& to, std::span<const float> what, double factor = 1) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += factor * static_cast<double>(what[i]);
}

std::span<float> residual_of(lsched_schedule* schedule) {
  void* residual = nullptr;
  lsched_dtype type = LSCHED_F64;
  EXPECT_EQ(lsched_sparse_residual(schedule, &residual, &type), LSCHED_OK);
  EXPECT_EQ(type, LSCHED_F32);
  return {static_cast<float*>(residual), residual == nullptr ? 0 : k_count};
}

lsched_report empty_report() { return {.struct_size = sizeof(lsched_report)}; }

/// The totals of one rank: the sum of its offered gradients, the sum of its collected updates, and its residual.
struct account {
  std::vector<double> given = std::vector<double>(k_count), taken = given, kept = given;
};

void expect_nothing_lost(const std::vector<account>& all, const std::string& where) {
  const auto size = static_cast<double>(all.size());
  for (std::size_t i = 0; i < k_count; ++i) {
    double given = 0, kept = 0;
    for (const account& it : all) given += it.given[i], kept += it.kept[i];
    for (const account& it : all) {
      const double taken = size * it.taken[i];  // exact if the number of ranks is a power of two
      const bool is_exact = std::has_single_bit(all.size());
      ASSERT_EQ(given, (is_exact ? taken : std::round(taken)) + kept) << where << ", element " << i;
    }
  }
}

/// Ranks call with different frequencies, so some rounds have gradients of only some ranks. The sum of updates and
/// residuals must equal the sum of all offers.
TEST(c_partial_sparse, what_is_offered_is_in_updates_or_residuals) {
  for (const char* algorithm : {"oktopk", "topka", "topkdsa", "gtopk", "sparseloco", "auto"})
    for (const char* activation : {"solo", "majority+every(4)", "quorum(1)", "full"})
      for (const std::int32_t size : {1, 2, 3, 5}) {
        const std::string where = std::string(algorithm) + " " + activation + ", " + std::to_string(size) + " ranks";
        // SparseLoCo's values can be fractions, which the rounded quotient by 3 or 5 does not return.
        if (algorithm == std::string("sparseloco") && size != 1 && size != 2) continue;
        std::vector<account> all(static_cast<std::size_t>(size));
        as_ranks(size, [&](lsched_world* runtime, std::size_t r) {
          lsched_schedule* schedule = create(runtime, request(algorithm, activation));
          ASSERT_NE(schedule, nullptr) << where;
          vector update(k_count);
          diagnostic why;
          lsched_report report = empty_report();
          const auto take = [&] {
            if (report.has_result != 0) add(all[r].taken, update);
          };
          for (std::uint64_t round = 1; round <= 6; ++round) {
            const vector gradient = drawn(r, round);
            lsched_ticket ticket{};
            ASSERT_EQ(lsched_offer(schedule, one_bucket(gradient.data()), &ticket), LSCHED_OK);
            add(all[r].given, gradient);
            ASSERT_EQ(lsched_collect(ticket, one_bucket(update.data()), k_limit_ns, &report, &why), LSCHED_OK)
                << where << why.text;
            take();
          }
          ASSERT_EQ(lsched_flush(schedule, one_bucket(update.data()), k_limit_ns, &report, &why), LSCHED_OK)
              << where << why.text;
          take();
          add(all[r].kept, residual_of(schedule));
          lsched_sparse_stats stats{.struct_size = sizeof stats};
          EXPECT_EQ(lsched_sparse_get_stats(schedule, &stats), LSCHED_OK);
          EXPECT_EQ(stats.rounds, report.round) << where;
          EXPECT_EQ(stats.item_bytes_sent > 0, size > 1) << where;
          // No round may begin until all ranks have read their residuals, so the second flush serves as a barrier.
          ASSERT_EQ(lsched_flush(schedule, nullptr, k_limit_ns, &report, &why), LSCHED_OK) << where << why.text;
          EXPECT_EQ(report.has_result, 1) << "a round without gradients has a result";
          EXPECT_EQ(report.last.contributors, 0u);
          destroy(schedule);
        });
        ASSERT_NO_FATAL_FAILURE(expect_nothing_lost(all, where));
      }
}

TEST(c_partial_sparse, who_sleeps_is_not_waited_for_and_not_counted) {
  constexpr std::int32_t size = 3;
  std::barrier in_step(size);
  std::vector<account> all(size);
  as_ranks(size, [&](lsched_world* runtime, std::size_t r) {
    lsched_schedule* schedule = create(runtime, request("oktopk", "solo"));
    ASSERT_NE(schedule, nullptr);
    vector update(k_count);
    diagnostic why;
    lsched_report report = empty_report();
    lsched_ticket ticket{};
    if (r == 0) {
      for (std::uint64_t round = 1; round <= 10; ++round) {
        const vector gradient = drawn(0, round);
        ASSERT_EQ(lsched_offer(schedule, one_bucket(gradient.data()), &ticket), LSCHED_OK);
        add(all[r].given, gradient);
        ASSERT_EQ(lsched_collect(ticket, one_bucket(update.data()), k_limit_ns, &report, &why), LSCHED_OK) << why.text;
        EXPECT_EQ(report.last.round, round);
        EXPECT_EQ(report.last.contributors, 1u);
        EXPECT_EQ(std::count_if(update.begin(), update.end(), [](float it) { return it != 0; }), 20);
        add(all[r].taken, update);
      }
    }
    in_step.arrive_and_wait();
    // Rank 0 runs ten rounds before the other ranks call. On the other ranks, the tenth round may not have ended yet.
    // Therefore these ranks collect the results of 9 or 10 rounds.
    if (r != 0) {
      const auto limit = std::chrono::steady_clock::now() + std::chrono::nanoseconds(k_limit_ns);
      void* residual = nullptr;
      lsched_dtype type{};
      while (lsched_sparse_residual(schedule, &residual, &type) != LSCHED_OK)
        ASSERT_LT(std::chrono::steady_clock::now(), limit) << "rounds without a call of this rank must end, too";
      const vector gradient = drawn(r, 1);
      ASSERT_EQ(lsched_offer(schedule, one_bucket(gradient.data()), &ticket), LSCHED_OK);
      add(all[r].given, gradient);
      ASSERT_EQ(lsched_collect(ticket, one_bucket(update.data()), k_limit_ns, &report, &why), LSCHED_OK) << why.text;
      EXPECT_GE(report.to, 9u);
      EXPECT_LE(report.to, 10u);
      add(all[r].taken, update);
    }
    ASSERT_EQ(lsched_flush(schedule, one_bucket(update.data()), k_limit_ns, &report, &why), LSCHED_OK) << why.text;
    EXPECT_EQ(report.last.contributors, 2u);
    EXPECT_EQ(report.last.offers, 2u);
    EXPECT_EQ(report.mine, r == 0 ? 0u : 1u);
    add(all[r].taken, update);
    add(all[r].kept, residual_of(schedule));
    in_step.arrive_and_wait();
    destroy(schedule);
  });
  expect_nothing_lost(all, "");
}

/// A second schedule that loads the saved state of the first schedule computes the same bits.
TEST(c_partial_sparse, what_lives_on_is_saved_between_rounds_and_brought_back) {
  constexpr std::int32_t size = 3;
  std::barrier in_step(size);
  as_ranks(size, [&](lsched_world* runtime, std::size_t r) {
    lsched_schedule* one = create(runtime, request("topka", "solo"));
    ASSERT_TRUE(one != nullptr);
    diagnostic why;
    lsched_ticket ticket{};
    for (std::uint64_t round = 1; round <= 3; ++round)
      ASSERT_EQ(lsched_offer(one, one_bucket(drawn(r, round).data()), &ticket), LSCHED_OK);
    ASSERT_EQ(lsched_flush(one, nullptr, k_limit_ns, nullptr, &why), LSCHED_OK) << why.text;
    std::size_t needed = 0;
    ASSERT_EQ(lsched_schedule_save(one, LSCHED_STATE_SPARSE, nullptr, 0, &needed), LSCHED_OK);
    std::vector<std::byte> image(needed);
    EXPECT_EQ(lsched_schedule_save(one, LSCHED_STATE_SPARSE, image.data(), needed - 1, nullptr), LSCHED_ERR_ARGUMENT);
    ASSERT_EQ(lsched_schedule_save(one, LSCHED_STATE_SPARSE, image.data(), needed, nullptr), LSCHED_OK);
    request from_there("topka", "solo");
    from_there.sparse.image = image.data();
    from_there.sparse.image_bytes = needed;
    lsched_schedule* other = create(runtime, from_there);
    ASSERT_NE(other, nullptr);
    EXPECT_GT(std::ranges::count_if(residual_of(one), [](float it) { return it != 0; }), 0);
    EXPECT_TRUE(std::ranges::equal(residual_of(one), residual_of(other)));
    in_step.arrive_and_wait();
    vector first(k_count), second(k_count);
    ASSERT_EQ(lsched_flush(one, one_bucket(first.data()), k_limit_ns, nullptr, &why), LSCHED_OK) << why.text;
    ASSERT_EQ(lsched_flush(other, one_bucket(second.data()), k_limit_ns, nullptr, &why), LSCHED_OK) << why.text;
    EXPECT_EQ(first, second);
    destroy(one);
    destroy(other);
  });
}

/// Rank 1 makes no call while a round is in flight. The round therefore does not end, and rank 0 must not read the
/// state.
TEST(c_partial_sparse, while_a_round_is_under_way_nobody_looks) {
  lsched_config config;
  lsched_config_init(&config);
  config.commit_timeout_ns = k_limit_ns;
  config.progress = LSCHED_PROGRESS_CALLER;  // rank 1 makes progress only in its calls
  std::vector<lsched_world*> world(2);
  ASSERT_EQ(lsched::testing::open_threads(2, &config, world.data(), nullptr), LSCHED_OK);
  std::vector<lsched_schedule*> its(2);
  {
    std::jthread other([&] { its[1] = create(world[1], request("oktopk", "solo")); });
    its[0] = create(world[0], request("oktopk", "solo"));
  }
  lsched_ticket ticket{};
  ASSERT_EQ(lsched_offer(its[0], one_bucket(drawn(0, 1).data()), &ticket), LSCHED_OK);
  EXPECT_EQ(lsched_test(ticket), LSCHED_PENDING);
  void* residual = nullptr;
  lsched_dtype type{};
  std::size_t needed = 0;
  EXPECT_EQ(lsched_sparse_residual(its[0], &residual, &type), LSCHED_ERR_STATE);
  EXPECT_EQ(lsched_schedule_save(its[0], LSCHED_STATE_SPARSE, nullptr, 0, &needed), LSCHED_ERR_STATE);
  EXPECT_EQ(lsched_sparse_residual(its[1], &residual, &type), LSCHED_OK)
      << "the part of this rank must not begin before its call";
  std::atomic<bool> is_over{false};
  {
    std::jthread other([&] {
      lsched_ticket mine{};
      EXPECT_EQ(lsched_offer(its[1], one_bucket(drawn(1, 1).data()), &mine), LSCHED_OK);
      EXPECT_EQ(lsched_collect(mine, nullptr, k_limit_ns, nullptr, nullptr), LSCHED_OK);
      while (!is_over) (void)lsched_test(mine);
    });
    EXPECT_EQ(lsched_collect(ticket, nullptr, k_limit_ns, nullptr, nullptr), LSCHED_OK);
    is_over = true;
  }
  {
    std::jthread other([&] { destroy(its[1]); });
    destroy(its[0]);
  }
  for (lsched_world* one : world) EXPECT_EQ(lsched_world_close(one), LSCHED_OK);
}

TEST(c_partial_sparse, a_wrong_desc_is_told_what_is_wrong) {
  as_ranks(1, [&](lsched_world* runtime, std::size_t) {
    const auto expect_refusal = [&](const char* words, const std::function<void(request&)>& spoil) {
      request what("oktopk", "solo");
      spoil(what);
      lsched_schedule* schedule = nullptr;
      diagnostic why;
      EXPECT_EQ(lsched_partial_create(runtime, &what.partial, &schedule, &why), LSCHED_ERR_ARGUMENT) << words;
      EXPECT_NE(std::string(why.text).find(words), std::string::npos) << why.text;
      EXPECT_EQ(schedule, nullptr);
    };
    const float nobody = 0;
    const std::uint64_t all = k_count;
    const lsched_tensor tensor{0, k_count};
    expect_refusal("struct_size", [](request& it) { it.partial.struct_size = 1; });
    expect_refusal("struct_size", [](request& it) { it.sparse.struct_size = 1; });
    expect_refusal("collective is \"adasum\"", [](request& it) { it.partial.collective = "adasum"; });
    expect_refusal("sparse_allreduce with its own desc in `sparse`", [](request& it) { it.partial.sparse = nullptr; });
    expect_refusal("needs the count and dtype", [](request& it) { it.sparse.count = 1; });
    expect_refusal("needs the count and dtype", [](request& it) { it.sparse.dtype = LSCHED_F64; });
    expect_refusal("owns its memory", [&](request& it) { it.sparse.gradient = &nobody; });
    expect_refusal("algorithm", [](request& it) { it.partial.algorithm = "oktopk"; });
    expect_refusal("LSCHED_SUM", [](request& it) { it.partial.reduction = LSCHED_MAX; });
    expect_refusal("divisor", [](request& it) { it.partial.divisor = LSCHED_DIVIDE_BY_RANKS; });
    expect_refusal("buckets", [&](request& it) { it.partial.buckets = &all, it.partial.bucket_count = 1; });
    expect_refusal("tensors", [&](request& it) { it.partial.tensors = &tensor, it.partial.tensor_count = 1; });
    expect_refusal("LSCHED_NAN_ERROR", [](request& it) { it.sparse.nans = LSCHED_NAN_ERROR; });
    expect_refusal("averages", [](request& it) { it.partial.averages_weights = 1; });
    expect_refusal("is not an activation policy", [](request& it) { it.partial.activation = "alone"; });
    expect_refusal("quorum(2) needs", [](request& it) { it.partial.activation = "quorum(2)"; });
    expect_refusal("only LSCHED_HISTORY has a history", [](request& it) { it.partial.history = 3; });
    expect_refusal("sparse_allreduce has no algorithm \"ring\"", [](request& it) { it.sparse.algorithm = "ring"; });
    expect_refusal("scale is not finite", [](request& it) { it.sparse.scale = NAN; });
    request by_default("oktopk", "solo");
    by_default.partial.collective = nullptr;
    destroy(create(runtime, by_default));
  });
}

TEST(c_partial_sparse, ranks_that_ask_for_different_things_learn_it) {
  as_ranks(2, [&](lsched_world* runtime, std::size_t r) {
    const request what("oktopk", r == 0 ? "solo" : "majority", 10);
    lsched_schedule* schedule = nullptr;
    diagnostic why;
    EXPECT_EQ(lsched_partial_create(runtime, &what.partial, &schedule, &why), LSCHED_ERR_MISMATCH) << why.text;
    EXPECT_EQ(schedule, nullptr);
  });
}

}  // namespace
