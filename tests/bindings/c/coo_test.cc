// Tests of sums of users' sparse vectors through the C interface. The tests check results, statistics, and the errors
// of wrong items and of a wrong desc. Ranks are threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <vector>

#include "bindings/c/lsched.h"
#include "tests/support/thread_ranks.h"

namespace {

using lsched::testing::as_ranks;
using lsched::testing::diagnostic;
using lsched::testing::k_limit_ns;

constexpr std::uint64_t k_count = 500, k_room = 60, k_out_room = 300;

struct rank_memory {
  std::vector<std::uint64_t> indices = std::vector<std::uint64_t>(k_room),
                             out_indices = std::vector<std::uint64_t>(600);
  std::vector<float> values = std::vector<float>(k_room), out_values = std::vector<float>(600);
  std::vector<float> dense = std::vector<float>(k_count, -1);
  std::uint64_t item_count = 0, out_count = 77;

  /// Draws the items of a round: integers at unordered indices, some of which repeat. The items differ from round to
  /// round.
  void draw(std::size_t rank, std::uint64_t round) {
    item_count = (rank * 17 + round * 5) % (k_room + 1);
    for (std::uint64_t i = 0; i < item_count; ++i) {
      const std::uint64_t hash = (i * 2654435761u + rank * 40503u + round * 9973u) % 2039;
      indices[i] = hash * hash % k_count / (round % 3 + 1);
      values[i] = static_cast<float>(hash) - 1000;
    }
  }

  lsched_coo_desc desc(bool has_dense = true) {
    return {.struct_size = sizeof(lsched_coo_desc),
            .indices = indices.data(),
            .values = values.data(),
            .item_count = &item_count,
            .room = k_room,
            .out_indices = out_indices.data(),
            .out_values = out_values.data(),
            .out_count = &out_count,
            .out_room = k_out_room,
            .dense = has_dense ? dense.data() : nullptr,
            .count = k_count,
            .dtype = LSCHED_F32};
  }
};

/// Returns the sum of the items that all ranks draw in a round.
std::map<std::uint64_t, float> expected(std::size_t ranks, std::uint64_t round) {
  std::map<std::uint64_t, float> all;
  rank_memory one;
  for (std::size_t r = 0; r < ranks; ++r) {
    one.draw(r, round);
    for (std::uint64_t i = 0; i < one.item_count; ++i) all[one.indices[i]] += one.values[i];
  }
  return all;
}

void expect_sum(const rank_memory& mine, const std::map<std::uint64_t, float>& all, bool has_dense) {
  ASSERT_EQ(mine.out_count, all.size());
  std::size_t i = 0;
  for (const auto& [index, value] : all) {
    ASSERT_EQ(mine.out_indices[i], index);
    ASSERT_EQ(mine.out_values[i], value);
    ++i;
  }
  for (std::uint64_t at = 0; has_dense && at < k_count; ++at) {
    const auto found = all.find(at);
    ASSERT_EQ(mine.dense[at], found == all.end() ? 0 : found->second) << at;
  }
}

class c_coo : public testing::TestWithParam<lsched_regions> {};
INSTANTIATE_TEST_SUITE_P(regions, c_coo, testing::Values(LSCHED_EQUAL_REGIONS, LSCHED_BALANCED_REGIONS));

TEST_P(c_coo, what_ranks_bring_is_added_up) {
  for (const std::int32_t size : {1, 2, 3, 5}) {
    std::vector<rank_memory> ranks(static_cast<std::size_t>(size));
    as_ranks(size, [&](lsched_world* runtime, std::size_t r) {
      const bool has_dense = r != 1;  // each rank chooses for itself whether it has a dense result
      lsched_schedule* schedule = nullptr;
      diagnostic why;
      lsched_coo_desc desc = ranks[r].desc(has_dense);
      desc.regions = GetParam();
      ASSERT_EQ(lsched_coo_allreduce_create(runtime, &desc, &schedule, &why), LSCHED_OK) << why.text;
      for (std::uint64_t round = 1; round <= 20; ++round) {
        ranks[r].draw(r, round);
        ASSERT_EQ(lsched_run(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
        ASSERT_NO_FATAL_FAILURE(expect_sum(ranks[r], expected(ranks.size(), round), has_dense));
      }
      lsched_sparse_stats stats{.struct_size = sizeof stats};
      EXPECT_EQ(lsched_sparse_get_stats(schedule, &stats), LSCHED_OK);
      EXPECT_EQ(stats.rounds, 20u);
      EXPECT_EQ(stats.item_bytes_sent > 0, size > 1);
      const std::uint64_t numbers = 2 + (GetParam() == LSCHED_BALANCED_REGIONS ? 2 * ranks.size() + 1 : 0);
      EXPECT_EQ(stats.other_bytes_sent, 20 * 8 * numbers * (ranks.size() - 1));
      void* residual = nullptr;
      lsched_dtype type = LSCHED_F32;
      EXPECT_EQ(lsched_sparse_residual(schedule, &residual, &type), LSCHED_ERR_ARGUMENT)
          << "a sparse sum of given items has no residual";
      EXPECT_EQ(lsched_schedule_destroy(schedule, 0, nullptr), LSCHED_OK);
    });
  }
}

TEST_P(c_coo, a_bad_round_is_bounds_everywhere_and_the_next_one_is_good) {
  std::vector<rank_memory> ranks(3);
  as_ranks(3, [&](lsched_world* runtime, std::size_t r) {
    rank_memory& mine = ranks[r];
    lsched_schedule* schedule = nullptr;
    diagnostic why;
    lsched_coo_desc desc = mine.desc();
    desc.out_room = 50;
    desc.regions = GetParam();
    ASSERT_EQ(lsched_coo_allreduce_create(runtime, &desc, &schedule, &why), LSCHED_OK) << why.text;
    const auto bring = [&](std::uint64_t number, std::uint64_t first) {
      mine.item_count = number;
      for (std::uint64_t i = 0; i < std::min(number, k_room); ++i) mine.indices[i] = first + i, mine.values[i] = 1;
    };
    const auto expect_bad = [&](std::int32_t culprit, std::uint64_t items, const char* words) {
      const auto before = mine.out_values;
      const auto vector = mine.dense;
      lsched_ticket ticket;
      ASSERT_EQ(lsched_start(schedule, &ticket), LSCHED_OK);
      ASSERT_EQ(lsched_wait(ticket, k_limit_ns, &why), LSCHED_ERR_BOUNDS);
      EXPECT_NE(std::string(why.text).find(words), std::string::npos) << why.text;
      EXPECT_EQ(why.rank, culprit);
      EXPECT_EQ(why.round, ticket.round);
      EXPECT_EQ(lsched_test(ticket), LSCHED_ERR_BOUNDS);
      EXPECT_EQ(lsched_wait(ticket, k_limit_ns, nullptr), LSCHED_ERR_BOUNDS);
      EXPECT_EQ(mine.out_count, items);
      EXPECT_EQ(mine.out_values, before);
      EXPECT_EQ(mine.dense, vector);
      bring(2, 10);
      ASSERT_EQ(lsched_run(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
      EXPECT_EQ(mine.out_count, 2u);
      EXPECT_EQ(mine.out_values[1], 3);
      EXPECT_EQ(mine.dense[11], 3);
      EXPECT_EQ(lsched_test(ticket), LSCHED_ERR_BOUNDS) << "the earlier failure is still reported";
    };
    bring(1, r == 2 ? k_count : 1);
    ASSERT_NO_FATAL_FAILURE(expect_bad(2, 0, "rank 2 has an index that is not below 500"));
    bring(r == 1 ? k_room + 1 : 3, 0);
    ASSERT_NO_FATAL_FAILURE(expect_bad(1, 0, "rank 1 contributes more than 60 items"));
    bring(r == 0 ? 0 : 40, 40 * r);
    ASSERT_NO_FATAL_FAILURE(expect_bad(-1, 80, "the result has 80 items, but there is room for 50"));
    EXPECT_EQ(lsched_schedule_destroy(schedule, 0, nullptr), LSCHED_OK);
  });
}

TEST(c_coo_desc, other_memory_is_bound) {
  std::vector<rank_memory> ranks(2), others(2);
  as_ranks(2, [&](lsched_world* runtime, std::size_t r) {
    lsched_schedule* schedule = nullptr;
    diagnostic why;
    const lsched_coo_desc desc = ranks[r].desc();
    ASSERT_EQ(lsched_coo_allreduce_create(runtime, &desc, &schedule, &why), LSCHED_OK) << why.text;
    ranks[r].draw(r, 1);
    ASSERT_EQ(lsched_run(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
    rank_memory& mine = others[r];
    const void* inputs[] = {mine.indices.data(), mine.values.data(), &mine.item_count};
    void* outputs[] = {mine.out_indices.data(), mine.out_values.data(), &mine.out_count, mine.dense.data()};
    ASSERT_EQ(lsched_rebind(schedule, inputs, outputs), LSCHED_OK);
    mine.draw(r, 2);
    ASSERT_EQ(lsched_run(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
    ASSERT_NO_FATAL_FAILURE(expect_sum(mine, expected(2, 2), true));
    ASSERT_NO_FATAL_FAILURE(expect_sum(ranks[r], expected(2, 1), true));
    std::ranges::fill(mine.dense, -1.0f);
    ASSERT_EQ(lsched_rebind(schedule, inputs, outputs), LSCHED_OK)
        << "the same buffers again: the whole vector is written";
    ASSERT_EQ(lsched_run(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
    ASSERT_NO_FATAL_FAILURE(expect_sum(mine, expected(2, 2), true));
    outputs[1] = mine.values.data();
    EXPECT_EQ(lsched_rebind(schedule, inputs, outputs), LSCHED_ERR_ARGUMENT) << "an output overlaps an input";
    outputs[1] = mine.out_indices.data() + 1;
    EXPECT_EQ(lsched_rebind(schedule, inputs, outputs), LSCHED_ERR_ARGUMENT) << "an output overlaps another output";
    EXPECT_EQ(lsched_schedule_destroy(schedule, 0, nullptr), LSCHED_OK);
  });
}

TEST(c_coo_desc, vectors_may_be_longer_than_an_index_and_have_no_elements) {
  std::vector<rank_memory> ranks(3);
  as_ranks(3, [&](lsched_world* runtime, std::size_t r) {
    rank_memory& mine = ranks[r];
    for (const std::uint64_t count : {std::uint64_t{3} << 32, std::uint64_t{1}, std::uint64_t{0}}) {
      lsched_schedule* schedule = nullptr;
      diagnostic why;
      lsched_coo_desc desc = mine.desc(false);
      desc.count = count;
      ASSERT_EQ(lsched_coo_allreduce_create(runtime, &desc, &schedule, &why), LSCHED_OK) << why.text;
      mine.item_count = count == 0 ? 0 : 2;
      mine.indices[0] = count - 1, mine.indices[1] = count / 2, mine.values[0] = 1, mine.values[1] = 2;
      ASSERT_EQ(lsched_run(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
      EXPECT_EQ(mine.out_count, count == 0 ? 0u : count == 1 ? 1u : 2u);
      if (count != 0) {
        EXPECT_EQ(mine.out_indices[mine.out_count - 1], count - 1);
      }
      EXPECT_EQ(lsched_schedule_destroy(schedule, 0, nullptr), LSCHED_OK);
    }
    lsched_schedule* schedule = nullptr;
    diagnostic why;
    lsched_coo_desc desc = mine.desc(false);
    desc.count = (std::uint64_t{3} << 32) + 1;
    EXPECT_EQ(lsched_coo_allreduce_create(runtime, &desc, &schedule, &why), LSCHED_ERR_UNSUPPORTED);
    EXPECT_NE(std::string(why.text).find("12884901889"), std::string::npos) << why.text;
    desc.count = (std::uint64_t{1} << 32) + 1, desc.regions = LSCHED_BALANCED_REGIONS;
    EXPECT_EQ(lsched_coo_allreduce_create(runtime, &desc, &schedule, &why), LSCHED_ERR_UNSUPPORTED);
    EXPECT_NE(std::string(why.text).find("balanced"), std::string::npos) << why.text;
    desc = mine.desc(false);
    desc.room = desc.out_room = 0;
    desc.indices = desc.out_indices = nullptr, desc.values = desc.out_values = nullptr;
    mine.item_count = 0;
    ASSERT_EQ(lsched_coo_allreduce_create(runtime, &desc, &schedule, &why), LSCHED_OK) << why.text;
    ASSERT_EQ(lsched_run(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
    EXPECT_EQ(mine.out_count, 0u);
    EXPECT_EQ(lsched_schedule_destroy(schedule, 0, nullptr), LSCHED_OK);
  });
}

TEST(c_coo_desc, a_wrong_desc_is_told_what_is_wrong) {
  rank_memory memory;
  as_ranks(1, [&](lsched_world* runtime, std::size_t) {
    const auto refusal = [&](lsched_status expected, const char* words,
                             const std::function<void(lsched_coo_desc&)>& change) {
      lsched_coo_desc desc = memory.desc();
      change(desc);
      lsched_schedule* schedule = nullptr;
      diagnostic why;
      EXPECT_EQ(lsched_coo_allreduce_create(runtime, &desc, &schedule, &why), expected) << words;
      EXPECT_EQ(schedule, nullptr);
      EXPECT_NE(std::string(why.text).find(words), std::string::npos) << why.text;
    };
    refusal(LSCHED_ERR_ARGUMENT, "struct_size", [](auto& it) { it.struct_size = 3; });
    refusal(LSCHED_ERR_ARGUMENT, "is null, but has elements", [](auto& it) { it.indices = nullptr; });
    refusal(LSCHED_ERR_ARGUMENT, "is null, but has elements", [](auto& it) { it.item_count = nullptr; });
    refusal(LSCHED_ERR_ARGUMENT, "is null, but has elements", [](auto& it) { it.out_count = nullptr; });
    refusal(LSCHED_ERR_ARGUMENT, "overlap", [](auto& it) { it.out_values = const_cast<void*>(it.values); });
    refusal(LSCHED_ERR_ARGUMENT, "overlap", [](auto& it) { it.out_values = it.dense; });
    refusal(LSCHED_ERR_ARGUMENT, "overlap", [](auto& it) { it.out_count = it.out_indices + 299; });
    refusal(LSCHED_ERR_ARGUMENT, "dtype", [](auto& it) { it.dtype = static_cast<lsched_dtype>(15); });
    refusal(LSCHED_ERR_ARGUMENT, "regions", [](auto& it) { std::memset(&it.regions, 1, sizeof it.regions); });
    refusal(LSCHED_ERR_CONSTRAINT, "floating", [](auto& it) { it.dtype = LSCHED_I32; });
    refusal(LSCHED_ERR_ARGUMENT, "2^48", [](auto& it) { it.room = std::uint64_t{1} << 50; });
    diagnostic why;
    lsched_schedule* schedule = nullptr;
    EXPECT_EQ(lsched_coo_allreduce_create(runtime, nullptr, &schedule, &why), LSCHED_ERR_ARGUMENT);
    EXPECT_EQ(lsched_coo_allreduce_create(nullptr, nullptr, &schedule, &why), LSCHED_ERR_ARGUMENT);
  });
}

TEST(c_coo_desc, ranks_that_ask_for_different_things_learn_it) {
  std::vector<rank_memory> ranks(2);
  as_ranks(2, [&](lsched_world* runtime, std::size_t r) {
    lsched_coo_desc desc = ranks[r].desc();
    desc.out_room += r;
    lsched_schedule* schedule = nullptr;
    diagnostic why;
    EXPECT_EQ(lsched_coo_allreduce_create(runtime, &desc, &schedule, &why), LSCHED_ERR_MISMATCH) << why.text;
    EXPECT_NE(std::string(why.text).find("out_room 30"), std::string::npos) << why.text;
  });
}

}  // namespace
