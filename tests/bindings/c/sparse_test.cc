// Tests of sparse allreduces through the C interface: results, statistics, the state between rounds, and errors of a
// wrong desc. Ranks are threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <latch>
#include <span>
#include <utility>
#include <vector>

#include "bindings/c/lsched.h"
#include "tests/support/barrier.h"
#include "tests/support/thread_ranks.h"

namespace {

using lsched::testing::as_ranks;
using lsched::testing::create_barrier;
using lsched::testing::diagnostic;
using lsched::testing::k_limit_ns;

constexpr std::uint64_t k_count = 500;

struct rank_memory {
  std::vector<float> gradient = std::vector<float>(k_count);
  std::vector<float> update = std::vector<float>(k_count, -1);

  /// Draws a gradient of integers with different magnitudes. The gradients differ from round to round.
  void draw(std::size_t rank, std::uint64_t round) {
    for (std::size_t i = 0; i < k_count; ++i) {
      const std::uint64_t hash = (i * 2654435761u + rank * 40503u + round * 9973u) % 2039;
      gradient[i] = static_cast<float>(static_cast<std::int64_t>(hash * hash / 997) - 2000);
    }
  }
  lsched_sparse_desc desc(const char* algorithm, std::uint64_t k) {
    return {.struct_size = sizeof(lsched_sparse_desc),
            .gradient = gradient.data(),
            .update = update.data(),
            .count = k_count,
            .k = k,
            .dtype = LSCHED_F32,
            .algorithm = algorithm};
  }
};

std::span<float> residual_of(lsched_schedule* schedule) {
  void* residual = nullptr;
  lsched_dtype type = LSCHED_F64;
  EXPECT_EQ(lsched_sparse_residual(schedule, &residual, &type), LSCHED_OK);
  EXPECT_EQ(type, LSCHED_F32);
  return {static_cast<float*>(residual), k_count};
}

std::vector<std::byte> image_of(const lsched_schedule* schedule) {
  std::size_t needed = 0;
  EXPECT_EQ(lsched_schedule_save(schedule, LSCHED_STATE_SPARSE, nullptr, 0, &needed), LSCHED_OK);
  std::vector<std::byte> image(needed);
  EXPECT_EQ(lsched_schedule_save(schedule, LSCHED_STATE_SPARSE, image.data(), needed, nullptr), LSCHED_OK);
  return image;
}

TEST(c_sparse, what_goes_in_comes_out_or_stays_in_residuals) {
  for (const char* algorithm : {"oktopk", "topka", "topkdsa", "gtopk", "sparseloco", "auto"})
    for (const std::int32_t size : {1, 2, 4}) {
      std::vector<rank_memory> ranks(static_cast<std::size_t>(size));
      std::vector<std::span<float>> residuals(ranks.size());
      std::barrier in_step(size);
      as_ranks(size, [&](lsched_world* runtime, std::size_t r) {
        lsched_schedule* schedule = nullptr;
        diagnostic why;
        const lsched_sparse_desc desc = ranks[r].desc(algorithm, 30);
        ASSERT_EQ(lsched_sparse_create(runtime, &desc, &schedule, &why), LSCHED_OK) << why.text;
        std::vector<double> given(k_count), taken(k_count);
        for (std::uint64_t round = 1; round <= 5; ++round) {
          ranks[r].draw(r, round);
          ASSERT_EQ(lsched_run(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
          residuals[r] = residual_of(schedule);
          in_step.arrive_and_wait();
          for (std::size_t i = 0; i < k_count; ++i) {
            double left = 0;
            for (std::size_t other = 0; other < ranks.size(); ++other) {
              given[i] += static_cast<double>(ranks[other].gradient[i]);
              left += static_cast<double>(residuals[other][i]);
            }
            taken[i] += static_cast<double>(ranks[r].update[i]) * size;
            ASSERT_EQ(given[i], taken[i] + left) << algorithm << ", element " << i;
          }
          EXPECT_EQ(std::memcmp(ranks[r].update.data(), ranks[0].update.data(), k_count * sizeof(float)), 0);
          in_step.arrive_and_wait();
        }
        EXPECT_EQ(lsched_schedule_destroy(schedule, 0, nullptr), LSCHED_OK);
      });
    }
}

TEST(c_sparse, deferring_keeps_within_the_bound_and_counts_it) {
  for (const std::int32_t size : {2, 3, 5}) {
    std::vector<rank_memory> ranks(static_cast<std::size_t>(size));
    as_ranks(size, [&](lsched_world* runtime, std::size_t r) {
      lsched_schedule* schedule = nullptr;
      lsched_sparse_desc desc = ranks[r].desc("oktopk", 60);
      desc.capacity = LSCHED_DEFER;
      desc.period = 2;
      diagnostic why;
      ASSERT_EQ(lsched_sparse_create(runtime, &desc, &schedule, &why), LSCHED_OK) << why.text;
      lsched_sparse_stats before{}, now{.struct_size = sizeof now};
      for (std::uint64_t round = 1; round <= 8; ++round) {
        // All large elements lie in a tenth of the vector.
        for (std::size_t i = 0; i < k_count; ++i) ranks[r].gradient[i] = i < 50 ? static_cast<float>(900 + i) : 0.001f;
        ASSERT_EQ(lsched_run(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
        ASSERT_EQ(lsched_sparse_get_stats(schedule, &now), LSCHED_OK);
        EXPECT_EQ(now.rounds, round);
        const std::uint64_t bound =
            3 * 60 * static_cast<std::uint64_t>(size - 1) / static_cast<std::uint64_t>(size) * 8;
        EXPECT_LE(now.item_bytes_sent - before.item_bytes_sent, bound);
        EXPECT_LE(now.item_bytes_received - before.item_bytes_received, bound);
        EXPECT_GT(now.item_bytes_sent, 0u);
        EXPECT_GT(now.other_bytes_received, before.other_bytes_received);
        before = now;
      }
      EXPECT_EQ(lsched_schedule_destroy(schedule, 0, nullptr), LSCHED_OK);
    });
  }
}

TEST(c_sparse, what_lives_on_is_saved_and_brought_back) {
  std::vector<rank_memory> ranks(3);
  as_ranks(3, [&](lsched_world* runtime, std::size_t r) {
    lsched_schedule *one = nullptr, *other = nullptr;
    lsched_sparse_desc desc = ranks[r].desc("oktopk", 20);
    diagnostic why;
    ASSERT_EQ(lsched_sparse_create(runtime, &desc, &one, &why), LSCHED_OK) << why.text;
    for (std::uint64_t round = 1; round <= 3; ++round) {
      ranks[r].draw(r, round);
      ASSERT_EQ(lsched_run(one, k_limit_ns, &why), LSCHED_OK) << why.text;
    }
    std::size_t needed = 0;
    ASSERT_EQ(lsched_schedule_save(one, LSCHED_STATE_SPARSE, nullptr, 0, &needed), LSCHED_OK);
    std::vector<std::byte> image(needed);
    EXPECT_EQ(lsched_schedule_save(one, LSCHED_STATE_SPARSE, image.data(), needed - 1, nullptr), LSCHED_ERR_ARGUMENT);
    ASSERT_EQ(lsched_schedule_save(one, LSCHED_STATE_SPARSE, image.data(), needed, nullptr), LSCHED_OK);
    desc.image = image.data();
    EXPECT_EQ(lsched_sparse_create(runtime, &desc, &other, &why), LSCHED_ERR_ARGUMENT) << "the image has no bytes";
    desc.image_bytes = needed - 1;
    EXPECT_EQ(lsched_sparse_create(runtime, &desc, &other, &why), LSCHED_ERR_ARGUMENT) << why.text;
    desc.image_bytes = needed;
    ASSERT_EQ(lsched_sparse_create(runtime, &desc, &other, &why), LSCHED_OK) << why.text;
    std::ranges::fill(image, std::byte{0});  // the create has already read the image
    const std::span<float> kept = residual_of(one), loaded = residual_of(other);
    EXPECT_TRUE(std::equal(kept.begin(), kept.end(), loaded.begin()));
    EXPECT_EQ(lsched_schedule_destroy(one, 0, nullptr), LSCHED_OK);
    EXPECT_EQ(lsched_schedule_destroy(other, 0, nullptr), LSCHED_OK);
  });
}

/// If the selection reuses thresholds, the image of the state includes the thresholds. The image is saved in the middle
/// of a period of reuse. The second schedule loads this image, although its own rounds begin at 1.
TEST(c_sparse, thresholds_live_on_too) {
  std::vector<rank_memory> ranks(3), others(3);
  as_ranks(3, [&](lsched_world* runtime, std::size_t r) {
    lsched_schedule *one = nullptr, *other = nullptr;
    std::vector<std::byte> image;
    const auto create = [&](rank_memory& memory, lsched_schedule** into) {
      lsched_sparse_desc desc = memory.desc("oktopk", 20);
      desc.selection = LSCHED_REUSED;
      desc.reuse = 4;
      desc.bucket = 1;
      desc.image = image.data();
      desc.image_bytes = image.size();
      diagnostic why;
      ASSERT_EQ(lsched_sparse_create(runtime, &desc, into, &why), LSCHED_OK) << why.text;
    };
    create(ranks[r], &one);
    bool differs_from_k = false;
    for (std::uint64_t round = 1; round <= 9; ++round) {
      ranks[r].draw(r, round);
      ASSERT_EQ(lsched_run(one, k_limit_ns, nullptr), LSCHED_OK);
      if (round == 2) {
        image = image_of(one);
        create(others[r], &other);
      }
      if (round <= 2) continue;
      others[r].draw(r, round);
      ASSERT_EQ(lsched_run(other, k_limit_ns, nullptr), LSCHED_OK);
      EXPECT_EQ(ranks[r].update, others[r].update) << round;
      const auto zeros = std::count(ranks[r].update.begin(), ranks[r].update.end(), 0.0f);
      differs_from_k |= static_cast<std::uint64_t>(zeros) != k_count - 20;
    }
    EXPECT_TRUE(differs_from_k) << "these thresholds are exact";
    EXPECT_EQ(lsched_schedule_destroy(one, 0, nullptr), LSCHED_OK);
    EXPECT_EQ(lsched_schedule_destroy(other, 0, nullptr), LSCHED_OK);
  });
}

TEST(c_sparse, other_memory_gets_all_of_the_update) {
  std::vector<rank_memory> ranks(2), others(2);
  as_ranks(2, [&](lsched_world* runtime, std::size_t r) {
    lsched_schedule* schedule = nullptr;
    const lsched_sparse_desc desc = ranks[r].desc("oktopk", 20);
    diagnostic why;
    ASSERT_EQ(lsched_sparse_create(runtime, &desc, &schedule, &why), LSCHED_OK) << why.text;
    ranks[r].draw(r, 1);
    ASSERT_EQ(lsched_run(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
    const void* input = others[r].gradient.data();
    void* output = others[r].update.data();
    ASSERT_EQ(lsched_rebind(schedule, &input, &output), LSCHED_OK);
    others[r].draw(r, 2);
    ASSERT_EQ(lsched_run(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
    EXPECT_EQ(std::count(others[r].update.begin(), others[r].update.end(), -1.0f), 0);
    EXPECT_EQ(static_cast<std::uint64_t>(std::count(others[r].update.begin(), others[r].update.end(), 0.0f)),
              k_count - 20);
    EXPECT_EQ(lsched_schedule_destroy(schedule, 0, nullptr), LSCHED_OK);
  });
}

/// A message with 30 elements has 2 * 16 + 30 * 14 bits, and begins its codes and its indices at full bytes.
TEST(c_sparse, sparseloco_sends_exactly_so_many_bytes) {
  constexpr std::uint64_t k_message = 4 + 8 + 45;
  std::vector<rank_memory> ranks(3);
  as_ranks(3, [&](lsched_world* runtime, std::size_t r) {
    lsched_schedule* schedule = nullptr;
    const lsched_sparse_desc desc = ranks[r].desc("sparseloco", 30);
    diagnostic why;
    ASSERT_EQ(lsched_sparse_create(runtime, &desc, &schedule, &why), LSCHED_OK) << why.text;
    for (std::uint64_t round = 1; round <= 4; ++round) {
      ranks[r].draw(r, round);
      ASSERT_EQ(lsched_run(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
      lsched_sparse_stats stats{.struct_size = sizeof stats};
      ASSERT_EQ(lsched_sparse_get_stats(schedule, &stats), LSCHED_OK);
      EXPECT_EQ(stats.item_bytes_sent, round * 2 * k_message);
      EXPECT_EQ(stats.item_bytes_received, round * 2 * k_message);
      EXPECT_EQ(stats.other_bytes_sent, 0u);
      EXPECT_EQ(stats.messages_sent, round * 2);
    }
    EXPECT_EQ(lsched_schedule_destroy(schedule, 0, nullptr), LSCHED_OK);
  });
}

TEST(c_sparse, the_same_memory_bound_again_gets_all_of_the_update) {
  for (const char* algorithm : {"oktopk", "topka", "topkdsa", "gtopk", "sparseloco"}) {
    std::vector<rank_memory> ranks(2);
    as_ranks(2, [&](lsched_world* runtime, std::size_t r) {
      lsched_schedule* schedule = nullptr;
      const lsched_sparse_desc desc = ranks[r].desc(algorithm, 20);
      diagnostic why;
      ASSERT_EQ(lsched_sparse_create(runtime, &desc, &schedule, &why), LSCHED_OK) << why.text;
      ranks[r].draw(r, 1);
      ASSERT_EQ(lsched_run(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
      std::ranges::fill(ranks[r].update, -1.0f);
      const void* input = desc.gradient;
      void* output = desc.update;
      ASSERT_EQ(lsched_rebind(schedule, &input, &output), LSCHED_OK);
      ASSERT_EQ(lsched_run(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
      EXPECT_EQ(std::count(ranks[r].update.begin(), ranks[r].update.end(), -1.0f), 0) << algorithm;
      EXPECT_EQ(lsched_schedule_destroy(schedule, 0, nullptr), LSCHED_OK);
    });
  }
}

TEST(c_sparse, nothing_is_a_count_like_any_other) {
  std::vector<rank_memory> ranks(3);
  as_ranks(3, [&](lsched_world* runtime, std::size_t r) {
    for (const char* algorithm : {"oktopk", "topka", "topkdsa", "gtopk", "gtopk_published", "sparseloco"})
      for (const std::uint64_t count : {std::uint64_t{0}, std::uint64_t{1}, k_count})
        for (const std::uint64_t k : {std::uint64_t{0}, std::uint64_t{1}, 2 * k_count}) {
          lsched_sparse_desc desc = ranks[r].desc(algorithm, k);
          desc.count = count;
          if (count == 0) desc.gradient = desc.update = nullptr;
          lsched_schedule* schedule = nullptr;
          diagnostic why;
          ASSERT_EQ(lsched_sparse_create(runtime, &desc, &schedule, &why), LSCHED_OK) << why.text;
          for (int round = 0; round < 3; ++round)
            ASSERT_EQ(lsched_run(schedule, k_limit_ns, &why), LSCHED_OK) << algorithm << count << k << why.text;
          EXPECT_EQ(lsched_schedule_destroy(schedule, 0, nullptr), LSCHED_OK);
        }
  });
}

constexpr std::size_t k_bad = 17;
constexpr const char* k_refusal = "element 17 of the sum is not finite";

TEST(c_sparse, a_round_that_is_not_finite_is_refused_everywhere_and_the_next_one_is_right) {
  for (const char* algorithm : {"oktopk", "topka", "topkdsa", "gtopk", "sparseloco"})
    for (const std::int32_t size : {1, 2, 3, 5}) {
      std::vector<rank_memory> ranks(static_cast<std::size_t>(size));
      as_ranks(size, [&](lsched_world* runtime, std::size_t r) {
        const bool is_last = r + 1 == ranks.size();
        lsched_sparse_desc desc = ranks[r].desc(algorithm, 30);
        desc.nans = LSCHED_NAN_ERROR;
        lsched_schedule* schedule = nullptr;
        diagnostic why;
        ASSERT_EQ(lsched_sparse_create(runtime, &desc, &schedule, &why), LSCHED_OK) << why.text;
        ranks[r].draw(r, 1);
        ASSERT_EQ(lsched_run(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
        const std::span<float> residual = residual_of(schedule);
        std::vector<float> wanted(residual.begin(), residual.end());
        ranks[r].draw(r, 2);
        if (is_last) ranks[r].gradient[k_bad] = NAN;
        for (std::size_t i = 0; i < k_count; ++i) wanted[i] += ranks[r].gradient[i];
        if (is_last) wanted[k_bad] = 0;
        EXPECT_EQ(lsched_run(schedule, k_limit_ns, &why), LSCHED_ERR_NOT_FINITE) << algorithm;
        EXPECT_NE(std::string(why.text).find(k_refusal), std::string::npos) << why.text;
        EXPECT_EQ(why.status, LSCHED_ERR_NOT_FINITE);
        EXPECT_EQ(why.round, 2u);
        EXPECT_EQ(static_cast<std::uint64_t>(std::count(ranks[r].update.begin(), ranks[r].update.end(), 0.0f)),
                  k_count);
        EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), residual.begin())) << algorithm << ", rank " << r;
        lsched_ticket spoilt, good;
        if (is_last) ranks[r].gradient[k_bad] = INFINITY;
        ASSERT_EQ(lsched_start(schedule, &spoilt), LSCHED_OK);
        EXPECT_EQ(lsched_wait(spoilt, k_limit_ns, nullptr), LSCHED_ERR_NOT_FINITE);
        EXPECT_EQ(lsched_test(spoilt), LSCHED_ERR_NOT_FINITE);
        ranks[r].draw(r, 3);
        ASSERT_EQ(lsched_start(schedule, &good), LSCHED_OK);
        EXPECT_EQ(lsched_wait(good, k_limit_ns, &why), LSCHED_OK) << why.text;
        EXPECT_EQ(lsched_test(good), LSCHED_OK);
        EXPECT_GT(
            k_count - static_cast<std::uint64_t>(std::count(ranks[r].update.begin(), ranks[r].update.end(), 0.0f)), 0u);
        lsched_sparse_stats stats{.struct_size = sizeof stats};
        ASSERT_EQ(lsched_sparse_get_stats(schedule, &stats), LSCHED_OK);
        EXPECT_EQ(stats.rounds, 4u) << "refused rounds count as ended";
        EXPECT_EQ(lsched_schedule_destroy(schedule, 0, nullptr), LSCHED_OK);
      });
    }
}

/// 65504 is the largest f16 number. With scale 1 the sum of two such numbers overflows. With scale 2 even one
/// contribution is too large to be sent.
TEST(c_sparse, a_narrow_sum_overflows_and_stays_where_it_was) {
  for (const char* algorithm : {"oktopk", "topka", "topkdsa", "gtopk", "sparseloco"})
    for (const double scale : {1.0, 2.0}) {
      as_ranks(2, [&](lsched_world* runtime, std::size_t) {
        std::vector<std::uint16_t> gradient(k_count), update(k_count, 1);
        gradient[k_bad] = 0x7BFF;
        lsched_sparse_desc desc{.struct_size = sizeof desc,
                                .gradient = gradient.data(),
                                .update = update.data(),
                                .count = k_count,
                                .k = 3,
                                .dtype = LSCHED_F16,
                                .algorithm = algorithm,
                                .scale = scale,
                                .nans = LSCHED_NAN_ERROR};
        lsched_schedule* schedule = nullptr;
        diagnostic why;
        ASSERT_EQ(lsched_sparse_create(runtime, &desc, &schedule, &why), LSCHED_OK) << why.text;
        EXPECT_EQ(lsched_run(schedule, k_limit_ns, &why), LSCHED_ERR_NOT_FINITE) << algorithm;
        EXPECT_NE(std::string(why.text).find(k_refusal), std::string::npos) << why.text;
        EXPECT_EQ(residual_of(schedule)[k_bad], scale == 1 ? 65504.0f : 0.0f) << algorithm;
        gradient[k_bad] = 0;
        const lsched_status again = scale == 1 ? LSCHED_ERR_NOT_FINITE : LSCHED_OK;
        EXPECT_EQ(lsched_run(schedule, k_limit_ns, &why), again) << algorithm << ": the value is still in the residual";
        for (float& it : residual_of(schedule)) it /= 4;
        EXPECT_EQ(lsched_run(schedule, k_limit_ns, &why), LSCHED_OK) << algorithm;
        const int quarter = algorithm == std::string_view("sparseloco") ? 0x73F8 : 0x73FF;  // a level has 8 digits
        EXPECT_EQ(update[k_bad], scale == 1 ? quarter : 0) << algorithm << ": a quarter of the value";
        EXPECT_EQ(lsched_schedule_destroy(schedule, 0, nullptr), LSCHED_OK);
      });
    }
}

/// Sets a value that the enum does not have. Only C code can set such a value.
template <class Enum>
void make_wrong(Enum& it) {
  const int none = 77;
  std::memcpy(&it, &none, sizeof it);
}

TEST(c_sparse, a_wrong_desc_is_told_what_is_wrong) {
  rank_memory memory;
  as_ranks(1, [&](lsched_world* runtime, std::size_t) {
    const auto refusal = [&](const std::function<void(lsched_sparse_desc&)>& change) {
      lsched_sparse_desc desc = memory.desc("oktopk", 10);
      change(desc);
      lsched_schedule* schedule = nullptr;
      diagnostic why;
      EXPECT_EQ(lsched_sparse_create(runtime, &desc, &schedule, &why), LSCHED_ERR_ARGUMENT);
      EXPECT_EQ(schedule, nullptr);
      return std::string(why.text);
    };
    const auto expect = [](const std::string& text, const char* words) {
      EXPECT_NE(text.find(words), std::string::npos) << text;
    };
    expect(refusal([](auto& it) { it.struct_size = 3; }), "struct_size");
    expect(refusal([](auto& it) { it.gradient = nullptr; }), "gradient or update is null");
    expect(refusal([](auto& it) { it.update = const_cast<void*>(it.gradient); }), "overlap");
    expect(refusal([](auto& it) { it.dtype = LSCHED_I32; }), "i32");
    expect(refusal([](auto& it) { it.algorithm = "ring"; }),
           "sparse_allreduce has no algorithm \"ring\": choose auto, oktopk");
    expect(refusal([](auto& it) { make_wrong(it.capacity); }), "capacity");
    expect(refusal([](auto& it) { make_wrong(it.balance); }), "balance");
    expect(refusal([](auto& it) { make_wrong(it.boundaries); }), "boundaries");
    expect(refusal([](auto& it) { make_wrong(it.selection); }), "selection");
    expect(refusal([](auto& it) { it.reuse = 5; }), "LSCHED_REUSED");
    expect(refusal([](auto& it) { it.selection = LSCHED_REUSED, it.reuse = 1u << 21; }), "2097152");
    for (const double scale : {std::nan(""), 1e39, -1e39, 1e-50})
      expect(refusal([scale](auto& it) { it.scale = scale; }), "scale is not finite");
    expect(refusal([](auto& it) { make_wrong(it.nans); }), "nans");
    expect(refusal([](auto& it) { it.period = 1u << 21; }), "2097152");
    expect(refusal([](auto& it) { it.algorithm = "topka", it.capacity = LSCHED_DEFER; }), "leave these members 0");
    expect(refusal([](auto& it) { it.algorithm = "topka", it.selection = LSCHED_REUSED; }), "leave these members 0");
    expect(refusal([](auto& it) { it.algorithm = nullptr, it.bucket = 4; }), "leave these members 0");
    expect(refusal([](auto& it) { it.count = (std::uint64_t{1} << 32) + 1; }), "4294967297");
    diagnostic why;
    lsched_schedule* schedule = nullptr;
    EXPECT_EQ(lsched_sparse_create(runtime, nullptr, &schedule, &why), LSCHED_ERR_ARGUMENT);
    EXPECT_EQ(lsched_sparse_create(nullptr, nullptr, &schedule, &why), LSCHED_ERR_ARGUMENT);
    ASSERT_EQ(create_barrier(runtime, &schedule, &why), LSCHED_OK);
    lsched_sparse_stats stats{.struct_size = sizeof stats};
    EXPECT_EQ(lsched_sparse_get_stats(schedule, &stats), LSCHED_ERR_ARGUMENT) << "a barrier";
    EXPECT_EQ(lsched_schedule_destroy(schedule, 0, nullptr), LSCHED_OK);
  });
}

TEST(c_sparse, ranks_that_ask_for_different_things_learn_it) {
  std::vector<rank_memory> ranks(2);
  as_ranks(2, [&](lsched_world* runtime, std::size_t r) {
    lsched_sparse_desc desc = ranks[r].desc("oktopk", 10 + r);
    lsched_schedule* schedule = nullptr;
    diagnostic why;
    EXPECT_EQ(lsched_sparse_create(runtime, &desc, &schedule, &why), LSCHED_ERR_MISMATCH) << why.text;
    EXPECT_NE(std::string(why.text).find("k 1"), std::string::npos) << why.text;
    desc = ranks[r].desc("oktopk", 10);
    desc.nans = r == 0 ? LSCHED_NAN_ERROR : LSCHED_NAN_PROPAGATE;
    EXPECT_EQ(lsched_sparse_create(runtime, &desc, &schedule, &why), LSCHED_ERR_MISMATCH) << why.text;
    EXPECT_NE(std::string(why.text).find("nans error"), std::string::npos) << why.text;
    using change = void (*)(lsched_sparse_desc&);
    for (const auto& [made, named] : std::initializer_list<std::pair<change, const char*>>{
             {[](lsched_sparse_desc& it) { it.selection = LSCHED_REUSED; }, "reused 32"},
             {[](lsched_sparse_desc& it) { it.bucket = 1; }, "bucket 1"},
             {[](lsched_sparse_desc& it) { it.capacity = LSCHED_DEFER; }, "defer"},
             {[](lsched_sparse_desc& it) { it.boundaries = LSCHED_AVERAGED; }, "averaged every"},
             {[](lsched_sparse_desc& it) { it.balance = LSCHED_BALANCE_NEVER; }, "balance never"}}) {
      lsched_sparse_desc other = ranks[r].desc("oktopk", 10);
      if (r == 1) made(other);
      EXPECT_EQ(lsched_sparse_create(runtime, &other, &schedule, &why), LSCHED_ERR_MISMATCH) << why.text;
      EXPECT_NE(std::string(why.text).find(named), std::string::npos) << why.text;
    }
  });
}

// The selection of deferred elements depends on the round number, and the regions depend on the last round that
// computed boundaries, which is every fourth round. Therefore the test saves images of the state after 1, 3, 4 and 6
// rounds.
TEST(c_sparse, goes_on_with_the_same_bits) {
  constexpr std::size_t size = 7;
  for (const std::uint64_t taken : {1u, 3u, 4u, 6u}) {
    std::vector<rank_memory> ranks(size), others(size);
    as_ranks(size, [&](lsched_world* runtime, std::size_t r) {
      diagnostic why;
      std::vector<std::byte> image;
      const auto create = [&](rank_memory& memory) {
        lsched_schedule* made = nullptr;
        lsched_sparse_desc desc = memory.desc("oktopk", 45);
        desc.capacity = LSCHED_DEFER;
        desc.period = 4;
        desc.image = image.data();
        desc.image_bytes = image.size();
        EXPECT_EQ(lsched_sparse_create(runtime, &desc, &made, &why), LSCHED_OK) << why.text;
        return made;
      };
      lsched_schedule *one = create(ranks[r]), *other = nullptr;
      for (std::uint64_t round = 1; round <= taken + 6; ++round) {
        ranks[r].draw(r, round);
        ASSERT_EQ(lsched_run(one, k_limit_ns, &why), LSCHED_OK) << why.text;
        if (round == taken) {
          image = image_of(one);
          other = create(others[r]);
        }
        if (round <= taken) continue;
        others[r].draw(r, round);
        ASSERT_EQ(lsched_run(other, k_limit_ns, &why), LSCHED_OK) << why.text;
        EXPECT_EQ(ranks[r].update, others[r].update) << taken << ", " << round;
      }
      EXPECT_TRUE(std::ranges::equal(residual_of(one), residual_of(other)));
      EXPECT_EQ(lsched_schedule_destroy(one, 0, nullptr), LSCHED_OK);
      EXPECT_EQ(lsched_schedule_destroy(other, 0, nullptr), LSCHED_OK);
    });
  }
}

TEST(c_sparse, ranks_with_images_of_different_rounds_all_learn_it) {
  std::vector<rank_memory> ranks(3);
  as_ranks(3, [&](lsched_world* runtime, std::size_t r) {
    lsched_schedule *one = nullptr, *other = nullptr;
    diagnostic why;
    lsched_sparse_desc desc = ranks[r].desc("oktopk", 30);
    ASSERT_EQ(lsched_sparse_create(runtime, &desc, &one, &why), LSCHED_OK) << why.text;
    std::vector<std::byte> image;
    for (std::uint64_t round = 1; round <= 2; ++round) {
      ranks[r].draw(r, round);
      ASSERT_EQ(lsched_run(one, k_limit_ns, &why), LSCHED_OK) << why.text;
      if (round == 1 || r != 1) image = image_of(one);
    }
    desc.image = image.data();
    desc.image_bytes = image.size();
    EXPECT_EQ(lsched_sparse_create(runtime, &desc, &other, &why), LSCHED_ERR_MISMATCH) << why.text;
    EXPECT_NE(std::string(why.text).find("from an image of round 1"), std::string::npos) << why.text;
    if (r == 2) desc.image = nullptr, desc.image_bytes = 0;
    EXPECT_EQ(lsched_sparse_create(runtime, &desc, &other, &why), LSCHED_ERR_MISMATCH) << why.text;
    EXPECT_EQ(lsched_schedule_destroy(one, 0, nullptr), LSCHED_OK);
  });
}

}  // namespace
