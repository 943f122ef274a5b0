// Tests of offers in partial schedules: offers without data, offers in buckets, offers to fragments, and pending offers
// that are saved as an image.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "bindings/c/lsched.h"
#include "tests/support/one_bucket.h"
#include "tests/support/open_threads.h"

namespace lsched {
namespace {

using testing::one_bucket;

constexpr std::uint64_t k_limit_ns = 20'000'000'000;
using integers = std::vector<std::int64_t>;

lsched_partial_desc desc_of(std::uint64_t count) {
  return {.struct_size = sizeof(lsched_partial_desc),
          .count = count,
          .dtype = LSCHED_I64,
          .reduction = LSCHED_SUM,
          .activation = "full",
          .lag = LSCHED_ACCUMULATE};
}

/// The partial schedules of all ranks of a world in this process. One thread acts for all ranks, and creates the
/// schedules in non-blocking mode.
class partial_world {
 public:
  partial_world(int ranks, const lsched_partial_desc& desc)
      : worlds_(static_cast<std::size_t>(ranks)), its(worlds_.size()) {
    EXPECT_EQ(testing::open_threads(ranks, nullptr, worlds_.data(), nullptr), LSCHED_OK);
    for (std::size_t r = 0; r < its.size(); ++r) {
      EXPECT_EQ(lsched_world_set(worlds_[r], LSCHED_NONBLOCKING, 1), LSCHED_OK);
      EXPECT_EQ(lsched_partial_create(worlds_[r], &desc, &its[r], nullptr), LSCHED_OK);
    }
    for (lsched_schedule* one : its) EXPECT_EQ(lsched_create_wait(one, k_limit_ns, nullptr), LSCHED_OK);
  }
  ~partial_world() {
    for (lsched_schedule* one : its) EXPECT_EQ(lsched_leave(one), LSCHED_OK);
    for (lsched_schedule* one : its) EXPECT_EQ(lsched_schedule_destroy(one, k_limit_ns, nullptr), LSCHED_OK);
    for (lsched_world* one : worlds_) EXPECT_EQ(lsched_world_close(one), LSCHED_OK);
  }
  partial_world(const partial_world&) = delete;
  partial_world& operator=(const partial_world&) = delete;

 private:
  std::vector<lsched_world*> worlds_;

 public:
  std::vector<lsched_schedule*> its;
};

lsched_report collect(const lsched_ticket& ticket, integers& result) {
  lsched_report report{.struct_size = sizeof report};
  EXPECT_EQ(lsched_collect(ticket, one_bucket(result.data()), k_limit_ns, &report, nullptr), LSCHED_OK);
  return report;
}

lsched_ticket offer(lsched_schedule* one, const integers* gradient) {
  lsched_ticket ticket{};
  const void* const place = gradient == nullptr ? nullptr : gradient->data();
  EXPECT_EQ(lsched_offer(one, gradient == nullptr ? nullptr : &place, &ticket), LSCHED_OK);
  return ticket;
}

TEST(offer, without_a_contribution_is_a_call) {
  partial_world world(3, desc_of(2));
  const integers ones(2, 1);
  for (int turn = 0; turn < 50; ++turn) {
    std::array<lsched_ticket, 3> tickets{};
    for (std::size_t r = 0; r < 3; ++r)
      tickets[r] = offer(world.its[r], static_cast<int>(r) == turn % 4 ? nullptr : &ones);
    const std::uint64_t there = turn % 4 < 3 ? 2 : 3;
    for (std::size_t r = 0; r < 3; ++r) {
      integers sum(2, -1);
      const lsched_report report = collect(tickets[r], sum);
      EXPECT_EQ(report.last.contributors, there);
      EXPECT_EQ(report.mine, static_cast<int>(r) == turn % 4 ? 0u : 1u);
      EXPECT_EQ(sum, integers(2, static_cast<std::int64_t>(there)));
    }
  }
}

TEST(offer, of_nobody_has_no_result) {
  partial_world world(2, desc_of(2));
  const std::array tickets{offer(world.its[0], nullptr), offer(world.its[1], nullptr)};
  for (const lsched_ticket& one : tickets) {
    integers sum(2, -1);
    const lsched_report report = collect(one, sum);
    EXPECT_EQ(report.has_result, 0);
    EXPECT_EQ(sum, integers(2, -1));
  }
}

/// The loops of all ranks end with the same round, and each contribution is in exactly one result.
TEST(offer, after_skips_calls_for_the_open_round) {
  constexpr std::uint64_t k_final = 40;
  for (const int ranks : {3, 5, 2, 1}) {
    lsched_partial_desc desc = desc_of(1);
    desc.activation = "solo";
    partial_world world(ranks, desc);
    const integers one(1, 1);
    std::vector<std::uint64_t> up_to(world.its.size());
    std::int64_t offered = 0;
    integers seen(world.its.size());
    const auto take = [&](std::size_t r, const lsched_report& report, const integers& result) {
      if (report.has_result != 0) seen[r] += result[0];
      up_to[r] = report.last.round;
    };
    for (int turn = 0; std::ranges::any_of(up_to, [](std::uint64_t round) { return round < k_final; }); ++turn) {
      ASSERT_LT(turn, 1000);
      for (std::size_t r = 0; r < world.its.size(); ++r) {
        if (up_to[r] >= k_final || (r == 1 && turn % 8 != 0)) continue;  // rank 1 is slow
        ASSERT_EQ(lsched_skip(world.its[r], k_final - 1, nullptr), LSCHED_OK);
        const lsched_ticket ticket = offer(world.its[r], &one);
        EXPECT_LE(ticket.round, k_final);
        EXPECT_GT(ticket.round, up_to[r]);
        ++offered;
        integers result(1);
        take(r, collect(ticket, result), result);
      }
    }
    EXPECT_EQ(up_to, std::vector<std::uint64_t>(world.its.size(), k_final));
    std::vector<bool> has_flushed(world.its.size());
    for (int turn = 0; std::ranges::count(has_flushed, false) > 0; ++turn) {
      ASSERT_LT(turn, 10'000);
      for (std::size_t r = 0; r < world.its.size(); ++r) {
        integers result(1);
        lsched_report report{.struct_size = sizeof report};
        if (has_flushed[r] ||
            lsched_flush(world.its[r], one_bucket(result.data()), 1'000'000, &report, nullptr) != LSCHED_OK)
          continue;
        has_flushed[r] = true;
        take(r, report, result);
        EXPECT_EQ(report.round, k_final + 1);
      }
    }
    EXPECT_EQ(seen, integers(world.its.size(), offered));
  }
}

TEST(offer, cannot_skip_what_is_not_over) {
  partial_world world(3, desc_of(1));
  std::uint64_t skipped = 7;
  EXPECT_EQ(lsched_skip(world.its[0], 100, &skipped), LSCHED_OK);
  EXPECT_EQ(skipped, 0u);
  EXPECT_EQ(offer(world.its[0], nullptr).round, 1u);
  EXPECT_EQ(lsched_skip(world.its[0], UINT64_MAX, nullptr), LSCHED_OK);
  EXPECT_EQ(offer(world.its[0], nullptr).round, 2u);
  EXPECT_EQ(lsched_leave(world.its[0]), LSCHED_OK);
  EXPECT_EQ(lsched_skip(world.its[0], 1, nullptr), LSCHED_ERR_STATE);
}

TEST(offer, may_come_bucket_by_bucket_in_any_order) {
  const std::array<std::uint64_t, 4> sizes{3, 0, 1, 2};
  lsched_partial_desc desc = desc_of(6);
  desc.buckets = sizes.data();
  desc.bucket_count = 4;
  partial_world world(2, desc);
  integers mine(6);
  std::iota(mine.begin(), mine.end(), 1);
  const std::array<const void*, 4> places{mine.data(), nullptr, mine.data() + 3, mine.data() + 4};
  for (int turn = 0; turn < 20; ++turn) {
    std::array<lsched_ticket, 2> tickets{};
    for (std::size_t r = 0; r < 2; ++r) {
      lsched_schedule* const one = world.its[r];
      const integers wrong(3, 99);
      EXPECT_EQ(lsched_offer_bucket(one, 0, wrong.data()), LSCHED_OK);
      EXPECT_EQ(lsched_offer_bucket(one, 3, places[3]), LSCHED_OK);
      EXPECT_EQ(lsched_offer_bucket(one, 2, nullptr), LSCHED_ERR_ARGUMENT);
      EXPECT_EQ(lsched_offer_bucket(one, 4, mine.data()), LSCHED_ERR_ARGUMENT);
      EXPECT_EQ(lsched_offer_end(one, &tickets[r]), LSCHED_ERR_STATE) << "bucket 2 is missing";
      EXPECT_EQ(lsched_offer(one, places.data(), &tickets[r]), LSCHED_ERR_STATE);
      EXPECT_EQ(lsched_flush(one, nullptr, 0, nullptr, nullptr), LSCHED_ERR_STATE);
      EXPECT_EQ(lsched_offer_bucket(one, 2, places[2]), LSCHED_OK);
      EXPECT_EQ(lsched_offer_bucket(one, 0, places[0]), LSCHED_OK);
      EXPECT_EQ(lsched_offer_end(one, &tickets[r]), LSCHED_OK);
    }
    for (const lsched_ticket& one : tickets) {
      integers sum(6);
      const std::array<void*, 4> parts{sum.data(), nullptr, sum.data() + 3, sum.data() + 4};
      lsched_report report{.struct_size = sizeof report};
      EXPECT_EQ(lsched_collect(one, parts.data(), k_limit_ns, &report, nullptr), LSCHED_OK);
      EXPECT_EQ(report.offers, 2u);
      EXPECT_EQ(sum, (integers{2, 4, 6, 8, 10, 12}));
    }
  }
}

TEST(offer, that_was_begun_can_be_forgotten) {
  partial_world world(1, desc_of(2));
  const integers nines(2, 9), ones(2, 1);
  EXPECT_EQ(lsched_offer_bucket(world.its[0], 0, nines.data()), LSCHED_OK);
  std::uint64_t offers = 7;
  EXPECT_EQ(lsched_withdraw(world.its[0], &offers), LSCHED_OK);
  EXPECT_EQ(offers, 0u);
  lsched_ticket ticket{};
  EXPECT_EQ(lsched_offer_end(world.its[0], &ticket), LSCHED_ERR_STATE);
  integers sum(2);
  (void)collect(offer(world.its[0], &ones), sum);
  EXPECT_EQ(sum, ones);
}

TEST(offer, bucket_by_bucket_joins_what_is_pending) {
  partial_world world(2, desc_of(2));
  const integers ones(2, 1), tens(2, 10);
  (void)offer(world.its[0], &ones);
  EXPECT_EQ(lsched_offer_bucket(world.its[0], 0, tens.data()), LSCHED_OK);
  lsched_ticket late{};
  EXPECT_EQ(lsched_offer_end(world.its[0], &late), LSCHED_OK);
  (void)offer(world.its[1], nullptr);
  (void)offer(world.its[1], nullptr);
  integers sum(2), more(2);
  const lsched_report report = collect(late, sum);
  EXPECT_EQ(report.offers, 2u);
  EXPECT_EQ(sum, integers(2, 11));
}

std::vector<std::byte> image_of(lsched_schedule* one) {
  std::size_t needed = 0;
  EXPECT_EQ(lsched_schedule_save(one, LSCHED_STATE_PENDING, nullptr, 0, &needed), LSCHED_OK);
  std::vector<std::byte> image(needed);
  EXPECT_EQ(lsched_schedule_save(one, LSCHED_STATE_PENDING, image.data(), needed - 1, nullptr), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_schedule_save(one, LSCHED_STATE_PENDING, image.data(), needed, nullptr), LSCHED_OK);
  return image;
}

TEST(offer, that_is_pending_outlives_its_schedule_as_an_image) {
  std::vector<std::byte> image;
  const integers ones(2, 1), tens(2, 10);
  {
    partial_world world(2, desc_of(2));
    (void)offer(world.its[0], &ones);
    // The round waits for rank 1. The round takes the first offer, and the second offer is pending.
    (void)offer(world.its[0], &tens);
    (void)offer(world.its[0], &tens);
    image = image_of(world.its[0]);
    const auto nothing = image_of(world.its[1]);
    EXPECT_LT(nothing.size(), image.size());
    EXPECT_EQ(lsched_pending_load(world.its[1], nothing.data(), nothing.size()), LSCHED_OK);
  }
  partial_world world(2, desc_of(2));
  lsched_schedule* const one = world.its[1];
  EXPECT_EQ(lsched_pending_load(one, image.data(), image.size() - 1), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_pending_load(one, image.data(), 3), LSCHED_ERR_ARGUMENT);
  for (const std::size_t at : {0u, 8u, 12u, 16u}) {  // offsets of magic number, version, type and count
    auto spoilt = image;
    spoilt[at] ^= std::byte{0x40};
    const lsched_status expected = at == 0 ? LSCHED_ERR_ARGUMENT : at == 8 ? LSCHED_ERR_VERSION : LSCHED_ERR_MISMATCH;
    EXPECT_EQ(lsched_pending_load(one, spoilt.data(), spoilt.size()), expected) << at;
  }
  EXPECT_EQ(lsched_pending_load(one, image.data(), image.size()), LSCHED_OK);
  const std::array tickets{offer(world.its[0], nullptr), offer(one, &ones)};
  integers sum(2);
  EXPECT_EQ(collect(tickets[0], sum).offers, 3u);
  EXPECT_EQ(sum, integers(2, 21));
}

lsched_ticket offer_weighted(lsched_schedule* one, const void* gradient, std::uint64_t weight) {
  lsched_ticket ticket{};
  EXPECT_EQ(lsched_offer_weighted(one, &gradient, weight, &ticket), LSCHED_OK);
  return ticket;
}

/// Rank r offers 2^r with weight r + 1. Every second turn rank 0 offers a second time, with the weight 4.
TEST(offer, has_a_weight_and_results_are_weighted_means) {
  for (const int ranks : {3, 5, 1, 4}) {
    lsched_partial_desc desc = desc_of(2);
    desc.dtype = LSCHED_F64;
    desc.divisor = LSCHED_DIVIDE_BY_OFFERS;
    partial_world world(ranks, desc);
    for (int turn = 0; turn < 20; ++turn) {
      double sum = 0;
      std::uint64_t weights = 0;
      lsched_ticket last{};
      for (std::size_t r = 0; r < world.its.size(); ++r) {
        for (const std::uint64_t weight : {r + 1, r == 0 && turn % 2 == 1 ? std::uint64_t{4} : 0}) {
          if (r != 0 && weight == 0) continue;
          const std::vector<double> gradient(2, std::ldexp(1, static_cast<int>(r)));
          last = offer_weighted(world.its[r], gradient.data(), weight);
          sum += static_cast<double>(weight) * gradient[0];
          weights += weight;
        }
        if (r != 0) (void)offer(world.its[r], nullptr);  // rank 0 has made two calls
      }
      std::vector<double> mean(2), all(2);
      std::uint64_t offers = 0;
      lsched_report report{.struct_size = sizeof report};
      do {
        EXPECT_EQ(lsched_collect({world.its.back(), 2 * static_cast<std::uint64_t>(turn) + 2}, one_bucket(mean.data()),
                                 k_limit_ns, &report, nullptr),
                  LSCHED_OK);
        offers += report.offers;
        for (std::size_t i = 0; i < 2 && report.has_result != 0; ++i)
          all[i] += mean[i] * static_cast<double>(report.offers);
      } while (report.to < report.round);
      EXPECT_EQ(offers, weights);
      EXPECT_DOUBLE_EQ(all[0], sum);
      EXPECT_EQ(all[0], all[1]);
    }
  }
}

/// Rank 1 makes rounds 1 to 3 alone, and rank 0 then offers for round 1. So the offer of rank 0 is 3 rounds late in
/// round 4.
TEST(offer, that_is_late_is_multiplied_by_the_factor_of_its_age) {
  const std::array<double, 3> table{1, 0.5, 0.125};
  struct expectation {
    lsched_age age;
    double factor;
  };
  for (const auto& [age, factor] :
       {expectation{LSCHED_AGE_NONE, 1}, expectation{LSCHED_AGE_TABLE, 0.125}, expectation{LSCHED_AGE_INVERSE, 0.25}}) {
    lsched_partial_desc desc = desc_of(2);
    desc.dtype = LSCHED_F32;
    desc.activation = "solo";
    desc.divisor = LSCHED_DIVIDE_BY_OFFERS;
    desc.age = age;
    if (age == LSCHED_AGE_TABLE) desc.age_factors = table.data(), desc.age_count = table.size();
    partial_world world(2, desc);
    std::vector<float> fours(2, 4), result(2);
    const auto take = [&](const lsched_ticket& ticket) {
      lsched_report report{.struct_size = sizeof report};
      EXPECT_EQ(lsched_collect(ticket, one_bucket(result.data()), k_limit_ns, &report, nullptr), LSCHED_OK);
      return report;
    };
    for (int round = 1; round <= 3; ++round) (void)take(offer_weighted(world.its[1], fours.data(), 1));
    (void)take({world.its[0], 3});
    (void)offer_weighted(world.its[0], fours.data(), 3);
    const lsched_report others = take(offer_weighted(world.its[1], fours.data(), 1));
    const lsched_report mine = take({world.its[0], 4});
    EXPECT_EQ(others.offers, 4u);
    EXPECT_EQ(others.age_factor, 1);
    EXPECT_EQ(mine.staleness, 3u);
    EXPECT_EQ(mine.age_factor, factor);
    EXPECT_EQ(mine.offers, 4u) << "an age changes no weight";
    EXPECT_EQ(result, std::vector<float>(2, static_cast<float>((3 * 4 * factor + 4) / 4)));
  }
}

TEST(offer, has_ages_that_all_ranks_share) {
  const std::array<double, 2> halves{1, 0.5}, thirds{1, 1.0 / 3}, late{0.5, 0.5}, negative{1, -1};
  std::array<lsched_world*, 2> worlds{};
  ASSERT_EQ(testing::open_threads(2, nullptr, worlds.data(), nullptr), LSCHED_OK);
  for (lsched_world* const one : worlds) EXPECT_EQ(lsched_world_set(one, LSCHED_NONBLOCKING, 1), LSCHED_OK);
  const auto create = [&](const auto& change) {
    std::array<lsched_schedule*, 2> its{};
    lsched_status answer = LSCHED_OK;
    for (std::size_t r = 0; r < 2; ++r) {
      lsched_partial_desc desc = desc_of(2);
      desc.dtype = LSCHED_F64;
      change(desc, r);
      (void)lsched_partial_create(worlds[r], &desc, &its[r], nullptr);
    }
    for (lsched_schedule* const one : its) {
      if (one != nullptr) answer = lsched_create_wait(one, k_limit_ns, nullptr);
      if (one == nullptr) answer = LSCHED_ERR_ARGUMENT;
    }
    for (lsched_schedule* const one : its) (void)lsched_leave(one);
    for (lsched_schedule* const one : its) (void)lsched_schedule_destroy(one, k_limit_ns, nullptr);
    return answer;
  };
  const auto table = [](lsched_partial_desc& desc, const std::array<double, 2>& factors) {
    desc.age = LSCHED_AGE_TABLE, desc.age_factors = factors.data(), desc.age_count = 2;
  };
  EXPECT_EQ(create([&](auto& desc, auto) { table(desc, thirds); }), LSCHED_OK);
  EXPECT_EQ(create([&](auto& desc, auto r) { table(desc, r == 0 ? halves : thirds); }), LSCHED_ERR_MISMATCH);
  EXPECT_EQ(create([&](auto& desc, auto r) { desc.age = r == 0 ? LSCHED_AGE_NONE : LSCHED_AGE_INVERSE; }),
            LSCHED_ERR_MISMATCH);
  EXPECT_EQ(create([&](auto& desc, auto) { table(desc, late); }), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(create([&](auto& desc, auto) { table(desc, negative); }), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(create([&](auto& desc, auto) { table(desc, halves), desc.age_count = 0; }), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(create([&](auto& desc, auto) { desc.age = static_cast<lsched_age>(3); }), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(create([&](auto& desc, auto) { table(desc, halves), desc.dtype = LSCHED_I32; }), LSCHED_ERR_ARGUMENT);
  for (lsched_world* const one : worlds) EXPECT_EQ(lsched_world_close(one), LSCHED_OK);
}

TEST(offer, of_a_weight_keeps_the_weight_in_buckets_and_in_an_image) {
  partial_world world(2, desc_of(2));
  lsched_schedule* const one = world.its[0];
  const integers fives(2, 5), tens(2, 10);
  (void)offer_weighted(one, fives.data(), 3);  // the round waits for rank 1, and takes this offer
  lsched_ticket late{};
  for (const std::uint64_t weight : {std::uint64_t{7}, std::uint64_t{0}, std::uint64_t{2}}) {
    EXPECT_EQ(lsched_offer_bucket(one, 0, tens.data()), LSCHED_OK);
    EXPECT_EQ(lsched_offer_end_weighted(one, weight, &late), LSCHED_OK);
  }
  const auto image = image_of(one);
  std::uint64_t weights = 0;
  EXPECT_EQ(lsched_withdraw(one, &weights), LSCHED_OK);
  EXPECT_EQ(weights, 9u);
  EXPECT_EQ(lsched_pending_load(world.its[1], image.data(), image.size()), LSCHED_OK);
  (void)offer_weighted(world.its[1], fives.data(), 0);
  integers sum(2);
  const lsched_report report = collect({world.its[1], 1}, sum);
  EXPECT_EQ(report.offers, 12u);
  EXPECT_EQ(report.mine, 9u);
  EXPECT_EQ(sum, integers(2, 3 * 5 + 9 * 10));
}

TEST(offer, of_all_weights_has_a_sum_that_stays_at_its_largest_value) {
  partial_world world(2, desc_of(1));
  const integers ones(1, 1);
  (void)offer_weighted(world.its[0], ones.data(), UINT64_MAX);
  integers sum(1);
  const lsched_report report = collect(offer_weighted(world.its[1], ones.data(), 2), sum);
  EXPECT_EQ(report.offers, UINT64_MAX);
  EXPECT_EQ(report.mine, 2u);
  EXPECT_EQ(sum[0], 1) << "integers wrap around";
}

TEST(offer, cannot_have_a_weight_unless_the_contributions_are_added) {
  lsched_partial_desc maximum = desc_of(1), adasum = desc_of(1), sparse = desc_of(8);
  maximum.reduction = LSCHED_MAX;
  adasum.collective = "adasum";
  adasum.dtype = sparse.dtype = LSCHED_F32;
  const lsched_sparse_desc of_sparse{.struct_size = sizeof of_sparse, .count = 8, .k = 2, .dtype = LSCHED_F32};
  sparse.sparse = &of_sparse;
  for (const lsched_partial_desc& desc : {maximum, adasum, sparse}) {
    partial_world world(1, desc);
    const integers zeros(8);
    const void* const place = zeros.data();
    lsched_ticket ticket{};
    EXPECT_EQ(lsched_offer_weighted(world.its[0], &place, 2, &ticket), LSCHED_ERR_UNSUPPORTED);
    EXPECT_NE(std::string(lsched_last_failure()->text).find("cannot take the weight 2"), std::string::npos);
    EXPECT_EQ(lsched_offer_bucket(world.its[0], 0, place), LSCHED_OK);
    EXPECT_EQ(lsched_offer_end_weighted(world.its[0], 2, &ticket), LSCHED_ERR_UNSUPPORTED);
    EXPECT_EQ(lsched_offer_end_weighted(world.its[0], 1, &ticket), LSCHED_OK);
    EXPECT_EQ(lsched_offer_weighted(world.its[0], &place, 0, &ticket), LSCHED_OK);
    EXPECT_EQ(ticket.round, 2u);
  }
}

TEST(offer, a_flush_may_have_buckets) {
  const std::array<std::uint64_t, 2> sizes{1, 2};
  lsched_partial_desc desc = desc_of(3);
  desc.buckets = sizes.data();
  desc.bucket_count = 2;
  partial_world world(1, desc);
  const integers mine{1, 2, 3};
  const void* const given[]{&mine[0], &mine[1]};
  lsched_ticket ticket{};
  EXPECT_EQ(lsched_offer(world.its[0], given, &ticket), LSCHED_OK);
  std::int64_t first = 0;
  std::array<std::int64_t, 2> rest{};
  void* const places[]{&first, rest.data()};
  void* const missing[]{&first, nullptr};
  EXPECT_EQ(lsched_flush(world.its[0], missing, k_limit_ns, nullptr, nullptr), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_flush(world.its[0], places, k_limit_ns, nullptr, nullptr), LSCHED_OK);
  EXPECT_EQ(first, 1);
  EXPECT_EQ(rest, (std::array<std::int64_t, 2>{2, 3}));
}

/// Offers `value` in all elements of a fragment.
lsched_ticket offer_to(lsched_schedule* one, std::uint32_t fragment, const integers& values) {
  lsched_ticket ticket{};
  EXPECT_EQ(lsched_offer_fragment(one, fragment, one_bucket(values.data()), 1, &ticket), LSCHED_OK);
  return ticket;
}

/// Rank 1 offers fragment 2 in a round that moves fragment 0. The offer waits for round 3, which moves fragment 2.
TEST(offer, waits_for_a_round_of_its_fragment) {
  for (const int ranks : {3, 5, 2}) {
    lsched_partial_desc desc = desc_of(2);
    desc.lag = LSCHED_HISTORY, desc.history = 8, desc.fragments = 3;
    partial_world world(ranks, desc);
    const integers ones(2, 1), tens(2, 10);
    integers sum(2);
    for (std::uint64_t round = 1; round <= 7; ++round) {
      lsched_ticket ticket{};
      for (std::size_t r = 0; r < world.its.size(); ++r)
        ticket = r == 1 ? offer_to(world.its[1], 2, tens) : offer(world.its[r], &ones);
      EXPECT_EQ(ticket.round, round);
      for (std::size_t r = 0; r < world.its.size(); ++r) {
        sum = {};
        sum.resize(2);
        const lsched_report report = collect({world.its[r], round}, sum);
        EXPECT_EQ(report.fragment, (round - 1) % 3);
        EXPECT_EQ(report.to, round);
        EXPECT_EQ(report.from, round > 3 ? round - 3 : 0);
        const std::int64_t tens_in_it = round == 3 ? 3 : round == 6 ? 3 : 0;
        EXPECT_EQ(sum, integers(2, ranks - 1 + 10 * tens_in_it)) << "round " << round;
        EXPECT_EQ(report.staleness, tens_in_it != 0 && r == 1 ? 2u : 0u);
      }
    }
  }
}

/// The image has the pending offers of all fragments. After a flush, the next round moves fragment 0.
TEST(offer, of_each_fragment_is_saved_and_flushed) {
  lsched_partial_desc desc = desc_of(2);
  desc.lag = LSCHED_HISTORY, desc.history = 8, desc.fragments = 3;
  partial_world world(2, desc);
  const integers ones(2, 1), fives(2, 5);
  (void)offer_to(world.its[0], 1, ones);
  (void)offer_to(world.its[0], 2, fives);
  std::vector<std::byte> image(1000);
  std::size_t bytes = 0;
  ASSERT_EQ(lsched_schedule_save(world.its[0], LSCHED_STATE_PENDING, image.data(), image.size(), &bytes), LSCHED_OK);
  image.resize(bytes);
  std::uint64_t withdrawn = 0;
  ASSERT_EQ(lsched_withdraw(world.its[0], &withdrawn), LSCHED_OK);
  EXPECT_EQ(withdrawn, 2u);
  for (const std::size_t wrong : {bytes - 1, bytes - 40, bytes + 1}) {
    auto spoilt = image;
    spoilt.resize(wrong);
    EXPECT_EQ(lsched_pending_load(world.its[1], spoilt.data(), spoilt.size()), LSCHED_ERR_ARGUMENT) << wrong;
  }
  ASSERT_EQ(lsched_pending_load(world.its[1], image.data(), image.size()), LSCHED_OK);
  std::array<std::int64_t, 3> sums{};
  const auto add = [&](const lsched_report& report, const integers& sum) {
    if (report.has_result != 0) sums[report.fragment] += sum[0];
  };
  integers sum(2);
  lsched_report report{.struct_size = sizeof report};
  lsched_status first = LSCHED_ERR_TIMEOUT;
  while (first == LSCHED_ERR_TIMEOUT) {  // one thread acts for both ranks
    first = lsched_flush(world.its[1], one_bucket(sum.data()), 1'000'000, &report, nullptr);
    const lsched_status other = lsched_flush(world.its[0], nullptr, 1'000'000, nullptr, nullptr);
    ASSERT_TRUE(other == LSCHED_OK || other == LSCHED_ERR_TIMEOUT);
  }
  ASSERT_EQ(first, LSCHED_OK);
  const std::uint64_t flushed = report.round;
  for (; report.from != report.to; report = collect({world.its[1], 0}, sum)) add(report, sum);
  EXPECT_EQ(sums, (std::array<std::int64_t, 3>{0, 1, 5}));
  EXPECT_EQ(flushed % 3, 0u);
}

/// Rank 1 makes rounds, while rank 0 collects in another thread. The results must come in the order of their rounds.
TEST(offer, results_of_fragments_come_in_the_order_of_their_rounds) {
  constexpr std::uint64_t k_rounds = 30'000, k_ahead = 60;
  lsched_partial_desc desc = desc_of(1);
  desc.activation = "solo", desc.lag = LSCHED_HISTORY, desc.history = 60, desc.fragments = 3;
  partial_world world(2, desc);
  std::atomic<std::uint64_t> collected{0};
  std::jthread caller([&] {
    const integers one(1, 1);
    integers sum(1);
    for (std::uint64_t round = 1; round <= k_rounds; ++round) {
      (void)collect(offer(world.its[1], &one), sum);
      while (round > collected.load() + k_ahead) std::this_thread::yield();
    }
  });
  integers sum(1);
  const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(k_limit_ns);
  std::uint64_t wrong = 0;
  while (collected.load() < k_rounds && std::chrono::steady_clock::now() < end) {
    const lsched_report report = collect({world.its[0], 0}, sum);
    if (report.from == report.to) continue;
    if (report.to != collected.load() + 1) ++wrong;
    collected.store(std::max(collected.load(), report.to));
  }
  EXPECT_EQ(collected.load(), k_rounds);
  EXPECT_EQ(wrong, 0u);
  collected.store(k_rounds);  // ends the other thread after a failure
}

TEST(offer, to_a_fragment_that_does_not_exist_is_refused) {
  lsched_partial_desc desc = desc_of(2);
  desc.fragments = 2;
  partial_world world(1, desc);
  const integers ones(2, 1);
  lsched_ticket ticket{};
  EXPECT_EQ(lsched_offer_fragment(world.its[0], 2, one_bucket(ones.data()), 1, &ticket), LSCHED_ERR_ARGUMENT);
  EXPECT_STREQ(lsched_last_failure()->text, "fragment 2 does not exist: the schedule has 2 fragments, numbered from 0");
  EXPECT_EQ(offer(world.its[0], &ones).round, 1u) << "a refused offer makes no call";
  lsched_world* alone = nullptr;
  lsched_schedule* made = nullptr;
  ASSERT_EQ(testing::open_threads(1, nullptr, &alone, nullptr), LSCHED_OK);
  const auto reason = [&] {
    lsched_diagnostic why{.struct_size = sizeof why};
    EXPECT_NE(lsched_partial_create(alone, &desc, &made, &why), LSCHED_OK);
    return std::string(why.text);
  };
  desc.fragments = 1025;
  EXPECT_NE(reason().find("fragments is above 1024"), std::string::npos) << reason();
  desc.fragments = 2, desc.averages_weights = 1, desc.dtype = LSCHED_F32;
  EXPECT_NE(reason().find("a schedule with fragments averages no weights"), std::string::npos) << reason();
  desc.averages_weights = 0;
  const lsched_sparse_desc sparse{.struct_size = sizeof sparse, .count = 2, .k = 1, .dtype = LSCHED_F32};
  desc.sparse = &sparse, desc.lag = LSCHED_LATEST;
  EXPECT_NE(reason().find("has no fragments"), std::string::npos) << reason();
  desc.sparse = nullptr;
  const lsched_groups groups{.struct_size = sizeof groups, .all = alone, .shards = 1};
  desc.groups = &groups;
  EXPECT_NE(reason().find("do not support fragments"), std::string::npos) << reason();
  EXPECT_EQ(lsched_world_close(alone), LSCHED_OK);
}

}  // namespace
}  // namespace lsched
