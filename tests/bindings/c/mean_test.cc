// Tests of means through the C interface. For every algorithm of the sum, the mean must be the sum divided by the
// divisor, rounded once.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/c/lsched.h"
#include "collectives/registry.h"
#include "tests/support/one_bucket.h"
#include "tests/support/thread_ranks.h"

namespace {

using lsched::testing::as_ranks;
using lsched::testing::diagnostic;
using lsched::testing::k_limit_ns;
using lsched::testing::one_bucket;

template <class T>
using contribution = std::function<std::vector<T>(std::size_t rank, std::uint64_t call)>;

lsched_partial_desc described(lsched_dtype type, std::uint64_t count, lsched_divisor by) {
  return {.struct_size = sizeof(lsched_partial_desc),
          .count = count,
          .dtype = type,
          .reduction = LSCHED_SUM,
          .activation = "full",
          .lag = by == LSCHED_DIVIDE_BY_CONTRIBUTORS ? LSCHED_LATEST : LSCHED_ACCUMULATE,
          .divisor = by};
}

/// Returns the mean that rank 0 collects after `calls` calls of each rank.
template <class T>
std::vector<T> mean_of(std::int32_t ranks, std::uint64_t calls, lsched_dtype type, lsched_divisor by,
                       std::uint64_t count, const contribution<T>& offered) {
  std::vector<T> mean(count);
  as_ranks(ranks, [&](lsched_world* runtime, std::size_t r) {
    lsched_schedule* schedule = nullptr;
    diagnostic why;
    const lsched_partial_desc desc = described(type, count, by);
    ASSERT_EQ(lsched_partial_create(runtime, &desc, &schedule, &why), LSCHED_OK) << why.text;
    lsched_ticket ticket{};
    for (std::uint64_t call = 1; call <= calls; ++call) {
      ASSERT_EQ(lsched_offer(schedule, one_bucket(offered(r, call).data()), &ticket), LSCHED_OK);
      ASSERT_EQ(lsched_wait(ticket, k_limit_ns, &why), LSCHED_OK) << why.text;
    }
    lsched_report report{.struct_size = sizeof report};
    std::vector<T> result(count);
    ASSERT_EQ(lsched_collect(ticket, one_bucket(result.data()), k_limit_ns, &report, &why), LSCHED_OK) << why.text;
    EXPECT_EQ(report.offers, calls * static_cast<std::uint64_t>(ranks));
    if (r == 0) mean = result;
    EXPECT_EQ(lsched_schedule_destroy(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
  });
  return mean;
}

/// Returns the mean of one integer over all offers: the sum of the offers divided by the number of offers.
std::int64_t mean_of_offers(std::int32_t ranks, std::uint64_t calls,
                            const std::function<std::int64_t(std::size_t rank, std::uint64_t call)>& offered) {
  return mean_of<std::int64_t>(ranks, calls, LSCHED_I64, LSCHED_DIVIDE_BY_OFFERS, 1,
                               [&](std::size_t r, std::uint64_t call) { return std::vector{offered(r, call)}; })
      .front();
}

TEST(c_mean, of_equal_numbers_is_that_number) {
  std::vector<float> integers(200'000);
  std::iota(integers.begin(), integers.end(), 1.0F);
  const contribution<float> same = [&](std::size_t, std::uint64_t) { return integers; };
  for (const std::int32_t ranks : {7, 14})
    for (const lsched_divisor by : {LSCHED_DIVIDE_BY_RANKS, LSCHED_DIVIDE_BY_CONTRIBUTORS, LSCHED_DIVIDE_BY_OFFERS})
      EXPECT_EQ(mean_of(ranks, 1, LSCHED_F32, by, integers.size(), same), integers) << ranks << " ranks";
}

TEST(c_mean, of_49_ones_is_one) {
  const contribution<double> ones = [](std::size_t, std::uint64_t) { return std::vector<double>{1}; };
  EXPECT_EQ(mean_of(7, 7, LSCHED_F64, LSCHED_DIVIDE_BY_OFFERS, 1, ones), std::vector<double>{1});
}

TEST(c_mean, of_integers_is_rounded_half_to_even) {
  for (const std::int64_t least : {1, 2, -2, -3}) {  // the means are 1.5, 2.5, -1.5 and -2.5, in this order
    const std::int64_t mean = mean_of_offers(
        7, 14, [&](std::size_t, std::uint64_t call) { return least + static_cast<std::int64_t>(call % 2); });
    EXPECT_EQ(mean, least + (least % 2 != 0 ? 1 : 0)) << least;
  }
}

TEST(c_mean, of_integers_that_are_no_doubles_is_exact) {
  constexpr std::int64_t beyond = (std::int64_t{1} << 53) + 1, high = std::int64_t{1} << 60;
  EXPECT_EQ(mean_of_offers(3, 1, [](std::size_t, std::uint64_t) { return beyond; }), beyond);
  EXPECT_EQ(mean_of_offers(3, 1, [](std::size_t, std::uint64_t) { return -beyond; }), -beyond);
  EXPECT_EQ(mean_of_offers(7, 1, [](std::size_t r, std::uint64_t) { return high + static_cast<std::int64_t>(r); }),
            high + 3);
  constexpr std::uint64_t highest = ~std::uint64_t{0} / 7;
  const contribution<std::uint64_t> same = [](std::size_t, std::uint64_t) { return std::vector{highest}; };
  EXPECT_EQ(mean_of(7, 1, LSCHED_U64, LSCHED_DIVIDE_BY_RANKS, 1, same), std::vector{highest});
}

TEST(c_mean, of_weights_is_the_same_division) {
  as_ranks(7, [](lsched_world* runtime, std::size_t r) {
    lsched_partial_desc desc = described(LSCHED_F32, 3, LSCHED_DIVIDE_BY_NONE);
    desc.averages_weights = 1;
    lsched_schedule* schedule = nullptr;
    diagnostic why;
    ASSERT_EQ(lsched_partial_create(runtime, &desc, &schedule, &why), LSCHED_OK) << why.text;
    std::vector<float> weights{3, 11, r == 0 ? 1.0F : 0.0F};
    ASSERT_EQ(lsched_model_sync(schedule, weights.data(), k_limit_ns, nullptr, &why), LSCHED_OK) << why.text;
    EXPECT_EQ(weights, (std::vector<float>{3, 11, 1.0F / 7.0F}));
    EXPECT_EQ(lsched_schedule_destroy(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
  });
}

/// Checks the mean that each rank gets if element i of the contribution of rank r is (r + 1) * (i + 1).
void expect_mean(const char* collective, const char* algorithm, std::int32_t ranks, std::uint64_t count,
                 bool in_place) {
  const bool is_scattered = std::string_view(collective).starts_with("reduce_scatter");
  const bool has_counts = std::string_view(collective) == "reduce_scatter";
  as_ranks(ranks, [&](lsched_world* world, std::size_t r) {
    const auto all = static_cast<std::uint64_t>(ranks);
    const std::vector<std::uint64_t> counts(all, count);
    std::vector<float> input(is_scattered ? all * count : count), output(count, -1.0F);
    for (std::size_t i = 0; i < input.size(); ++i) input[i] = static_cast<float>((r + 1) * (i + 1));
    lsched_collective_desc desc{.struct_size = sizeof desc,
                                .collective = collective,
                                .input = input.data(),
                                .output = in_place ? input.data() : output.data(),
                                .count = has_counts ? 0 : count,
                                .counts = has_counts ? counts.data() : nullptr,
                                .dtype = LSCHED_F32,
                                .reduction = LSCHED_SUM,
                                .algorithm = algorithm,
                                .divisor = LSCHED_DIVIDE_BY_RANKS};
    const bool has_output = std::string_view(collective) != "reduce" || r == 0;
    if (!has_output) desc.output = nullptr;
    lsched_schedule* schedule = nullptr;
    diagnostic why;
    ASSERT_EQ(lsched_collective_create(world, &desc, &schedule, &why), LSCHED_OK) << why.text;
    ASSERT_EQ(lsched_run(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
    const std::vector<float>& result = in_place ? input : output;
    for (std::uint64_t i = 0; has_output && i < count; ++i) {
      const std::uint64_t place = is_scattered ? r * count + i : i;
      const std::uint64_t sum = (place + 1) * all * (all + 1) / 2;
      EXPECT_EQ(result[i], static_cast<float>(static_cast<double>(sum) / ranks))
          << collective << "/" << algorithm << ", " << ranks << " ranks, element " << i << " of " << count;
    }
    EXPECT_EQ(lsched_schedule_destroy(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
  });
}

TEST(c_mean, of_ordinary_collectives_by_every_algorithm) {
  for (const lsched::algorithm& how : lsched::algorithms())
    for (const std::int32_t ranks : {1, 2, 3, 5, 6, 7, 8})
      for (const std::uint64_t count : {0U, 1U, 37U})
        for (const bool in_place : {false, true}) {
          if (!how.of->has_means || (in_place && (how.of == &lsched::k_reduce || !how.needs.in_place))) continue;
          expect_mean(how.of->name.data(), std::string(how.name).c_str(), ranks, count, in_place);
        }
}

TEST(c_mean, is_for_sums_of_collectives_that_have_means) {
  as_ranks(2, [](lsched_world* world, auto) {
    std::int32_t input[2]{}, output[2]{};
    const auto expect_refused = [&](const char* collective, lsched_reduction how, lsched_divisor by, const char* word) {
      const lsched_collective_desc desc{.struct_size = sizeof desc,
                                        .collective = collective,
                                        .input = input,
                                        .output = output,
                                        .count = 1,
                                        .dtype = LSCHED_I32,
                                        .reduction = how,
                                        .divisor = by};
      lsched_schedule* schedule = nullptr;
      diagnostic why;
      EXPECT_EQ(lsched_collective_create(world, &desc, &schedule, &why), LSCHED_ERR_ARGUMENT) << collective;
      EXPECT_TRUE(why.says(word)) << why.text;
    };
    expect_refused("allreduce", LSCHED_MAX, LSCHED_DIVIDE_BY_RANKS, "only sums are divided");
    expect_refused("allreduce", LSCHED_SUM, LSCHED_DIVIDE_BY_OFFERS, "does not support this divisor");
    expect_refused("scan", LSCHED_SUM, LSCHED_DIVIDE_BY_RANKS, "cannot be divided");
    expect_refused("allgather", lsched_reduction{}, LSCHED_DIVIDE_BY_RANKS, "cannot be divided");
  });
}

TEST(c_mean, is_agreed_upon) {
  as_ranks(2, [](lsched_world* world, std::size_t r) {
    float numbers[2]{};
    const lsched_collective_desc desc{.struct_size = sizeof desc,
                                      .collective = "allreduce",
                                      .input = numbers,
                                      .output = numbers,
                                      .count = 2,
                                      .dtype = LSCHED_F32,
                                      .reduction = LSCHED_SUM,
                                      .divisor = r == 0 ? LSCHED_DIVIDE_BY_NONE : LSCHED_DIVIDE_BY_RANKS};
    lsched_schedule* schedule = nullptr;
    diagnostic why;
    EXPECT_EQ(lsched_collective_create(world, &desc, &schedule, &why), LSCHED_ERR_MISMATCH);
    EXPECT_TRUE(why.says("divided by ranks")) << why.text;
  });
}

/// Returns small integers converted to a type. The sums of these integers over ranks are exact and not zero.
template <class T>
std::vector<T> drawn(std::size_t rank, std::uint64_t count, lsched_dtype type) {
  std::vector<double> numbers(count);
  for (std::size_t i = 0; i < count; ++i)
    numbers[i] = (i % 2 == 0 ? 1 : -1) * static_cast<double>(1 + (5 * i + 3 * rank) % 31);
  std::vector<T> elements(count);
  EXPECT_EQ(lsched_convert(LSCHED_F64, numbers.data(), count, 1, type, elements.data()), LSCHED_OK);
  return elements;
}

/// Checks the updates of sparse allreduces that send all elements.
template <class T>
void expect_sparse_mean(lsched_dtype type, const char* algorithm) {
  constexpr std::uint64_t count = 200;
  constexpr std::int32_t ranks = 7;
  const std::vector<T> dense = mean_of<T>(ranks, 1, type, LSCHED_DIVIDE_BY_RANKS, count,
                                          [&](std::size_t r, std::uint64_t) { return drawn<T>(r, count, type); });
  as_ranks(ranks, [&](lsched_world* runtime, std::size_t r) {
    const std::vector<T> gradient = drawn<T>(r, count, type);
    std::vector<T> update(count);
    const lsched_sparse_desc desc{.struct_size = sizeof desc,
                                  .gradient = gradient.data(),
                                  .update = update.data(),
                                  .count = count,
                                  .k = count,
                                  .dtype = type,
                                  .algorithm = algorithm};
    lsched_schedule* schedule = nullptr;
    diagnostic why;
    ASSERT_EQ(lsched_sparse_create(runtime, &desc, &schedule, &why), LSCHED_OK) << why.text;
    ASSERT_EQ(lsched_run(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
    EXPECT_EQ(update, dense) << algorithm << ", dtype " << type;
    EXPECT_EQ(lsched_schedule_destroy(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
  });
}

TEST(c_mean, of_a_sparse_allreduce_that_leaves_nothing_out_is_the_dense_one_bit_for_bit) {
  for (const char* algorithm : {"oktopk", "topka", "topkdsa", "gtopk"}) {
    expect_sparse_mean<std::uint16_t>(LSCHED_F16, algorithm);
    expect_sparse_mean<std::uint16_t>(LSCHED_BF16, algorithm);
    expect_sparse_mean<float>(LSCHED_F32, algorithm);
    expect_sparse_mean<double>(LSCHED_F64, algorithm);
  }
}

}  // namespace
