#include "offload/idle_policy.h"

#include <gtest/gtest.h>

namespace lsched {
namespace {

using namespace std::chrono_literals;

/// Idles once. The thread has already idled for `idle_for` and has yielded `yields` times. Returns false if the thread
/// should sleep instead.
bool idles_on(const idle_policy& policy, std::chrono::nanoseconds idle_for, std::uint32_t yields) {
  return idle_once(policy, idle_for, yields);
}

TEST(idle_policy, words_are_parsed_and_others_are_refused) {
  EXPECT_EQ(*parse_idle_mode("auto"), idle_mode::automatic);
  EXPECT_EQ(*parse_idle_mode("spin"), idle_mode::spin);
  EXPECT_EQ(*parse_idle_mode("yield"), idle_mode::yield);
  EXPECT_EQ(*parse_idle_mode("park"), idle_mode::park);
  for (const std::string_view word : {"", "Spin", "park ", "automatic"}) EXPECT_FALSE(parse_idle_mode(word)) << word;
}

TEST(idle_policy, spin_and_yield_never_sleep) {
  for (const idle_mode mode : {idle_mode::spin, idle_mode::yield})
    for (const unsigned ranks : {1u, 3u, 100u}) {
      const idle_policy policy = make_idle_policy(mode, ranks, 2);
      for (const auto idle_for : {0ns, 1000ns, std::chrono::nanoseconds(1h)})
        EXPECT_TRUE(idles_on(policy, idle_for, 1000));
    }
}

TEST(idle_policy, park_sleeps_at_once) { EXPECT_FALSE(idles_on(make_idle_policy(idle_mode::park, 1, 8), 0ns, 0)); }

TEST(idle_policy, auto_spins_where_every_rank_has_a_core_and_gives_way_where_not) {
  const idle_policy roomy = make_idle_policy(idle_mode::automatic, 2, 2);
  const idle_policy crowded = make_idle_policy(idle_mode::automatic, 3, 2);
  EXPECT_GT(roomy.spin, 0ns);
  EXPECT_EQ(crowded.spin, 0ns);
  for (const idle_policy& policy : {roomy, crowded}) {
    EXPECT_TRUE(idles_on(policy, 0ns, 1000));
    EXPECT_TRUE(idles_on(policy, policy.spin + policy.yield - 1ns, 1000));
    EXPECT_FALSE(idles_on(policy, policy.spin + policy.yield, 1000));
    EXPECT_FALSE(idles_on(policy, 1s, 0));
  }
}

TEST(idle_policy, cores_are_taken_where_ranks_have_no_more_than_they_compute_on) {
  EXPECT_FALSE(make_idle_policy(idle_mode::automatic, 1, 2).are_cores_taken);
  EXPECT_TRUE(make_idle_policy(idle_mode::automatic, 2, 2).are_cores_taken);
  EXPECT_TRUE(make_idle_policy(idle_mode::automatic, 3, 2).are_cores_taken);
  for (const idle_mode mode : {idle_mode::spin, idle_mode::yield, idle_mode::park})
    EXPECT_FALSE(make_idle_policy(mode, 3, 2).are_cores_taken) << "an explicit idle mode must be kept";
}

TEST(idle_policy, counts_turns_where_ranks_share_cores_unless_somebody_computes) {
  const idle_policy crowded = make_idle_policy(idle_mode::automatic, 3, 2);
  ASSERT_GT(crowded.turns, 1u);
  ASSERT_GT(crowded.patience, crowded.yield);
  EXPECT_TRUE(idles_on(crowded, crowded.patience - 1ns, crowded.turns - 1));
  EXPECT_FALSE(idles_on(crowded, crowded.patience - 1ns, crowded.turns));
  EXPECT_FALSE(idles_on(crowded, crowded.patience, crowded.turns - 1));
  std::uint32_t yields = 0;
  EXPECT_TRUE(idle_once(crowded, 0ns, yields));
  EXPECT_EQ(yields, 1u);
  const idle_policy roomy = make_idle_policy(idle_mode::automatic, 2, 2);
  EXPECT_TRUE(idle_once(roomy, 0ns, yields));
  EXPECT_EQ(yields, 1u) << "spinning does not yield";
}

// --- cores that other programs use -----------------------------------------------------------------------------------

constexpr core_sharing::time_point k_start{std::chrono::hours(1)};

TEST(core_sharing, is_seen_by_a_look_that_comes_late_and_forgotten_after_a_while) {
  core_sharing watch;
  EXPECT_FALSE(watch.is_shared(k_start));
  watch.note_look(k_start, core_sharing::k_lost_core - 1ns);
  EXPECT_FALSE(watch.is_shared(k_start)) << "an interrupt is not another program";
  for (const auto lost : {std::chrono::nanoseconds(1ms), std::chrono::nanoseconds(7ms)}) {
    watch.note_look(k_start, lost);
    EXPECT_TRUE(watch.is_shared(k_start));
    EXPECT_TRUE(watch.is_shared(k_start + 20 * lost - 1ns));
    EXPECT_FALSE(watch.is_shared(k_start + 20 * lost));
  }
  watch.note_look(k_start, 1h);
  EXPECT_FALSE(watch.is_shared(k_start + core_sharing::k_longest_pause)) << "a suspended machine";
}

TEST(core_sharing, concerns_threads_alone_that_spin_by_default) {
  EXPECT_TRUE(make_idle_policy(idle_mode::automatic, 2, 2).gives_way);
  EXPECT_FALSE(make_idle_policy(idle_mode::automatic, 3, 2).gives_way);
  for (const idle_mode mode : {idle_mode::spin, idle_mode::yield, idle_mode::park})
    EXPECT_FALSE(make_idle_policy(mode, 2, 2).gives_way) << "an explicit idle mode must be kept";
}

}  // namespace
}  // namespace lsched
