// Tests of activations. The tests cover the text form, the validation, and the random choice of candidate ranks.
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>

#include "libsched/schedule/activation.h"
#include "libsched/schedule/draw.h"

namespace lsched {
namespace {

TEST(starts, words_are_read_back) {
  for (const char* words :
       {"full", "solo", "majority", "first_of(1)", "all_of(17)", "quorum(4294967295)", "solo+every(1)", "full+every(3)",
        "deadline(1)", "deadline(auto)", "deadline(auto)+every(9)", "quorum(2)+every(18446744073709551615)",
        "quorum(1)+grace(1)", "quorum(3)+grace(4294967295)+every(16)"}) {
    const auto starts = read_activation(words);
    ASSERT_TRUE(starts) << words;
    EXPECT_EQ(words_for(*starts), words);
  }
  EXPECT_EQ(words_for({}), "none");
}

TEST(starts, other_words_are_refused) {
  for (const char* words : {"",
                            "none",
                            "Solo",
                            " solo",
                            "solo ",
                            "quorum",
                            "quorum()",
                            "quorum(0)",
                            "quorum(-1)",
                            "quorum(+1)",
                            "quorum(1",
                            "quorum1)",
                            "quorum(1)x",
                            "quorum(1 )",
                            "quorum(0x2)",
                            "quorum(4294967296)",
                            "quorum(auto)",
                            "deadline(0)",
                            "deadline()",
                            "solo(1)",
                            "solo+",
                            "solo+every",
                            "solo+every()",
                            "solo+every(0)",
                            "solo+every(18446744073709551616)",
                            "solo+every(1)+every(2)",
                            "+every(2)",
                            "every(2)",
                            "solo + every(2)",
                            "first_of(1.5)",
                            "grace(5)",
                            "solo+grace(5)",
                            "all_of(2)+grace(5)",
                            "deadline(5)+grace(5)",
                            "quorum(2)+grace",
                            "quorum(2)+grace()",
                            "quorum(2)+grace(0)",
                            "quorum(2)+grace(auto)",
                            "quorum(2)+grace(4294967296)",
                            "quorum(2)+grace(5)+grace(5)",
                            "quorum(2)+grace(5)every(3)",
                            "quorum(2)+grace(5)+",
                            "quorum(2)+every(3)+grace(5)"}) {
    const auto starts = read_activation(words);
    ASSERT_FALSE(starts) << words;
    EXPECT_EQ(starts.error().code, status::argument);
    EXPECT_NE(starts.error().text.find("\"" + std::string(words) + "\" is not an activation policy"),
              std::string::npos);
  }
}

TEST(starts, take_all_where_fewer_are_left_but_wait_as_long_as_ever) {
  const auto of = [](const char* words) { return words_for(among(*read_activation(words), 3)); };
  EXPECT_EQ(of("quorum(5)+every(9)"), "quorum(3)+every(9)");
  EXPECT_EQ(of("quorum(5)+grace(7)+every(9)"), "quorum(3)+grace(7)+every(9)");
  EXPECT_EQ(of("all_of(2)"), "all_of(2)");
  EXPECT_EQ(of("majority"), "majority");
  EXPECT_EQ(of("deadline(5000)"), "deadline(5000)");
  EXPECT_EQ(of("deadline(auto)"), "deadline(auto)");
}

TEST(starts, a_number_is_of_ranks_that_exist) {
  EXPECT_FALSE(validate({.policy = activation_policy::quorum, .number = 3}, 3));
  EXPECT_FALSE(validate({.policy = activation_policy::solo}, 1));
  EXPECT_FALSE(validate({.policy = activation_policy::deadline, .number = 1'000'000}, 2));
  EXPECT_FALSE(validate({.policy = activation_policy::deadline, .number = k_auto_deadline}, 2));
  EXPECT_TRUE(validate({.policy = activation_policy::quorum, .number = 4}, 3));
  EXPECT_TRUE(validate({.policy = activation_policy::all_of}, 3));
  EXPECT_TRUE(validate({.policy = activation_policy::solo, .number = 1}, 3));
  EXPECT_FALSE(validate({.policy = activation_policy::quorum, .number = 3, .grace_us = 1}, 3));
  EXPECT_TRUE(validate({.policy = activation_policy::all_of, .number = 3, .grace_us = 1}, 3));
}

TEST(starts, quotas_are_those_of_the_table) {
  const auto quota = [](const char* words) {
    const auto [candidates, arrivals] = quota_of(*read_activation(words), 7);
    return std::pair(candidates, arrivals);
  };
  EXPECT_EQ(quota("full"), std::pair(7, 7));
  EXPECT_EQ(quota("solo"), std::pair(7, 1));
  EXPECT_EQ(quota("majority"), std::pair(1, 1));
  EXPECT_EQ(quota("first_of(3)"), std::pair(3, 1));
  EXPECT_EQ(quota("all_of(3)+every(2)"), std::pair(3, 3));
  EXPECT_EQ(quota("quorum(3)"), std::pair(7, 3));
  EXPECT_EQ(quota("quorum(3)+grace(100)"), std::pair(7, 3));
}

TEST(starts, a_grace_is_for_further_calls) {
  const activation starts = *read_activation("quorum(3)+grace(100)");
  for (const rank size : {3, 5, 6, 7}) {
    EXPECT_EQ(has_grace(starts, size), size > 3);
    EXPECT_TRUE(has_coordinator(starts, size));
    EXPECT_FALSE(has_grace(*read_activation("quorum(3)"), size));
  }
  EXPECT_FALSE(has_coordinator(*read_activation("quorum(1)"), 3));
  EXPECT_TRUE(has_coordinator(*read_activation("quorum(1)+grace(100)"), 3));
  EXPECT_FALSE(has_coordinator(*read_activation("quorum(1)+grace(100)"), 1));
}

TEST(starts, a_departure_counts_only_by_its_own_op_with_a_grace) {
  const std::vector<rank> all{0, 1, 2, 3, 4}, some{0, 2, 4};
  for (const char* words : {"quorum(3)+grace(100)", "quorum(3)+grace(100)+every(2)"}) {
    round_calls calls(*read_activation(words), 5);
    calls.open(1, some);
    EXPECT_TRUE(calls.counts(0, k_grace_tag, &some));
    for (rank r = 0; r < 5; ++r) {
      const bool is_left = r == 1 || r == 3;
      EXPECT_EQ(calls.counts(r, k_call_tag, &some), !is_left) << words << " " << r;
      EXPECT_EQ(calls.counts(0, k_left_tag + static_cast<std::uint32_t>(r), &some), is_left) << words << " " << r;
      EXPECT_FALSE(calls.counts(0, k_left_tag + static_cast<std::uint32_t>(r), &all));
      EXPECT_FALSE(calls.counts(0, k_left_tag + static_cast<std::uint32_t>(r), nullptr));
    }
  }
  round_calls full(*read_activation("quorum(3)+grace(100)+every(2)"), 5), without(*read_activation("quorum(3)"), 5);
  full.open(2, some);
  without.open(1, some);
  for (const std::uint32_t tag : {k_call_tag, k_grace_tag, k_left_tag + 1}) EXPECT_FALSE(full.counts(1, tag, &some));
  EXPECT_TRUE(full.counts(1, k_full_call_tag, &some));
  for (const std::uint32_t tag : {k_grace_tag, k_left_tag + 1}) EXPECT_FALSE(without.counts(0, tag, &some));
}

TEST(starts, multiples_are_full) {
  const activation starts = *read_activation("solo+every(3)");
  for (round_no round = 1; round < 20; ++round) EXPECT_EQ(starts.is_full(round), round % 3 == 0);
  EXPECT_FALSE(read_activation("solo")->is_full(6));
  EXPECT_TRUE(read_activation("full")->is_full(7));
}

// --- draws -----------------------------------------------------------------------------------------------------------

std::vector<rank> drawn_of(rank size, std::uint64_t seed, round_no round, std::span<const rank> present, rank number) {
  drawn_ranks some(size);
  some.draw(seed, round, present, number);
  std::vector<rank> list;
  for (rank r = 0; r < size; ++r)
    if (some.holds(r)) list.push_back(r);
  return list;
}

TEST(starts, as_many_are_drawn_as_are_wanted_and_only_of_those_present) {
  const std::vector<rank> present{1, 2, 5, 6, 9};
  for (rank number = 0; number <= 7; ++number)
    for (round_no round = 1; round <= 200; ++round) {
      const auto some = drawn_of(11, 3, round, present, number);
      EXPECT_EQ(some.size(), static_cast<std::size_t>(std::min(number, rank{5})));
      for (const rank r : some) EXPECT_TRUE(std::ranges::binary_search(present, r));
    }
}

TEST(starts, one_of_many_is_the_one_that_draw_says) {
  const std::vector<rank> present{0, 3, 4, 7};
  for (round_no round = 1; round <= 200; ++round)
    EXPECT_EQ(drawn_of(8, 17, round, present, 1), std::vector<rank>{draw(17, round, present)});
}

/// There are 20 sets of three ranks out of six. The test draws 20 000 times, so each set should appear 1000 times. The
/// standard deviation is 31.
TEST(starts, every_set_is_as_likely_as_any_other) {
  std::vector<rank> present(6);
  std::iota(present.begin(), present.end(), 0);
  std::map<std::vector<rank>, int> seen;
  for (round_no round = 1; round <= 20'000; ++round) ++seen[drawn_of(6, 5, round, present, 3)];
  EXPECT_EQ(seen.size(), 20u);
  for (const auto& [set, count] : seen) EXPECT_NEAR(count, 1000, 5 * 31);
}

TEST(starts, rounds_and_seeds_make_a_difference) {
  std::vector<rank> present(32);
  std::iota(present.begin(), present.end(), 0);
  std::set<std::vector<rank>> seen;
  for (std::uint64_t seed = 0; seed < 10; ++seed)
    for (round_no round = 1; round <= 10; ++round) seen.insert(drawn_of(32, seed, round, present, 8));
  EXPECT_EQ(seen.size(), 100u);
}

}  // namespace
}  // namespace lsched
