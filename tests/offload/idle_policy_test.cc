#include "offload/idle_policy.h"

#include <gtest/gtest.h>

namespace lsched {
namespace {

using namespace std::chrono_literals;

TEST(idle_policy, words_are_parsed_and_others_are_refused_by_name) {
  EXPECT_EQ(*parse_idle_mode("auto"), idle_mode::automatic);
  EXPECT_EQ(*parse_idle_mode("spin"), idle_mode::spin);
  EXPECT_EQ(*parse_idle_mode("yield"), idle_mode::yield);
  EXPECT_EQ(*parse_idle_mode("park"), idle_mode::park);
  for (const std::string_view word : {"", "Spin", "park ", "automatic"}) {
    const auto parsed = parse_idle_mode(word);
    ASSERT_FALSE(parsed) << word;
    EXPECT_EQ(parsed.error().code, status::argument);
    EXPECT_NE(parsed.error().text.find("\"" + std::string(word) + "\""), std::string::npos);
  }
}

TEST(idle_policy, spin_and_yield_never_sleep) {
  for (const idle_mode mode : {idle_mode::spin, idle_mode::yield})
    for (const unsigned ranks : {1u, 3u, 100u}) {
      const idle_policy policy = make_idle_policy(mode, ranks, 2);
      for (const auto idle_for : {0ns, 1000ns, std::chrono::nanoseconds(1h)}) EXPECT_TRUE(idle_once(policy, idle_for));
    }
}

TEST(idle_policy, park_sleeps_at_once) { EXPECT_FALSE(idle_once(make_idle_policy(idle_mode::park, 1, 8), 0ns)); }

TEST(idle_policy, auto_spins_where_every_rank_has_a_core_and_gives_way_where_not) {
  const idle_policy roomy = make_idle_policy(idle_mode::automatic, 2, 2);
  const idle_policy crowded = make_idle_policy(idle_mode::automatic, 3, 2);
  EXPECT_GT(roomy.spin, 0ns);
  EXPECT_EQ(crowded.spin, 0ns);
  for (const idle_policy& policy : {roomy, crowded}) {
    EXPECT_TRUE(idle_once(policy, 0ns));
    EXPECT_TRUE(idle_once(policy, policy.spin + policy.yield - 1ns));
    EXPECT_FALSE(idle_once(policy, policy.spin + policy.yield));
    EXPECT_FALSE(idle_once(policy, 1s));
  }
}

}  // namespace
}  // namespace lsched
