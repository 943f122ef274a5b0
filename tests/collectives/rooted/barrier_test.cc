#include "collectives/rooted/rooted.h"

#include <gtest/gtest.h>

#include "libsched/schedule/geometry.h"
#include "tests/support/generators.h"
#include "tests/support/sampling.h"
#include "tests/support/symbolic_world.h"

namespace lsched::testing {
namespace {

std::vector<schedule_ptr> barriers(rank size) {
  return whole_world(size, [](world place) { return barrier_dissemination(place); });
}

/// Returns a barrier that waits for the application's call. A rank enters the barrier when the application calls, not
/// at the beginning of the round.
result<schedule_ptr> barrier_after_call(world place) {
  builder to(place);
  to.set_exit(add_barrier(to, to.call()).exit);
  to.declare_synchronising();
  return to.compile();
}

/// Runs the world with each rank in turn as the straggler. Returns the first fault.
std::string fault_with_any_straggler(const std::vector<schedule_ptr>& programs, std::uint64_t seed = 1) {
  std::string fault;
  for (rank late = 0; static_cast<std::size_t>(late) < programs.size() && fault.empty(); ++late)
    fault = symbolic_world(programs, {.seed = seed, .straggler = late}).run(2);
  return fault;
}

TEST(barrier, nobody_exits_before_everyone_has_entered) {
  for (const rank size : world_sizes()) {
    const auto programs = barriers(size);
    EXPECT_EQ(fault_with_any_straggler(programs), "") << "P=" << size;
    for (std::uint64_t seed = 1; seed <= 5; ++seed)
      EXPECT_EQ(symbolic_world(programs, {.seed = seed}).run(4), "") << "P=" << size << " seed=" << seed;
  }
}

TEST(barrier, holds_behind_an_entry) {
  for (const rank size : world_sizes())
    EXPECT_EQ(fault_with_any_straggler(whole_world(size, barrier_after_call)), "") << "P=" << size;
}

TEST(barrier, nobody_is_more_than_one_round_ahead) {
  for (const rank size : {2, 5, 8}) {
    const auto programs = barriers(size);
    for (const schedule_ptr& program : programs) EXPECT_TRUE(program->is_synchronising());
    symbolic_world all(programs, {.seed = 7});
    EXPECT_EQ(all.run(30), "");
    EXPECT_EQ(all.furthest_ahead(), 1u);
  }
}

TEST(barrier, signals_and_hops_are_p_log_p_and_log_p) {
  for (const rank size : world_sizes()) {
    symbolic_world all(barriers(size), {.how = order::by_hops});
    ASSERT_EQ(all.run(), "");
    EXPECT_EQ(all.took(0).signals, static_cast<std::uint64_t>(size * ceil_log2(size)));
    EXPECT_EQ(all.took(0).hops, static_cast<std::uint64_t>(ceil_log2(size)));
    EXPECT_EQ(all.took(0).messages, 0u);
  }
}

TEST(barrier, of_one_rank_is_a_nop) {
  const auto alone = barrier_dissemination({.self = 0, .size = 1});
  ASSERT_TRUE(alone);
  ASSERT_EQ((*alone)->ops().size(), 1u);
  EXPECT_EQ((*alone)->ops()[0].kind, op_kind::nop);
}

TEST(barrier, of_the_largest_world_compiles) {
  const auto made = barrier_dissemination({.self = 2147483646, .size = 2147483647});
  ASSERT_TRUE(made) << made.error().text;
  EXPECT_EQ((*made)->ops().size(), 2u * 31 + 1);
}

TEST(barrier, of_no_world_is_refused) {
  const auto made = barrier_dissemination({.self = 3, .size = 3});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, status::argument);
}

// --- sabotage ----------------------------------------------------------------------------------------------

/// Removes one dependency of one rank. Returns whether some straggler and seed reveal the fault.
bool is_missed(std::vector<schedule_ptr> programs, std::size_t who, op_id before, op_id after) {
  programs[who] = without_dep(*programs[who], before, after);
  for (std::uint64_t seed = 1; seed <= 12; ++seed)
    if (!fault_with_any_straggler(programs, seed).empty()) return true;
  return false;
}

TEST(barrier_sabotage, every_dep_is_missed) {
  for (const rank size : {4, 8}) {
    const auto programs = whole_world(size, barrier_after_call);
    const std::size_t who = 1;
    for (op_id before = 0; before < programs[who]->ops().size(); ++before)
      for (const op_id after : programs[who]->successors(before))
        EXPECT_TRUE(is_missed(programs, who, before, after)) << size << ": " << before << " -> " << after;
  }
}

/// A send must wait for the signals of all earlier steps. A comment in barrier.cc warns of the mistake that this test
/// plants: a wait for only the signal of the previous step.
TEST(barrier_sabotage, waiting_for_the_last_receive_only_is_too_little) {
  auto programs = barriers(8);
  for (schedule_ptr& program : programs)
    for (op_id before = 0; before < program->ops().size(); ++before)
      for (op_id after = 0; after < program->ops().size(); ++after)
        if (program->ops()[before].kind == op_kind::signal_send && program->ops()[after].kind == op_kind::signal_send)
          if (const schedule_ptr weaker = without_dep(*program, before, after)) program = weaker;
  std::string fault;
  for (std::uint64_t seed = 1; seed <= 20 && fault.empty(); ++seed) fault = fault_with_any_straggler(programs, seed);
  EXPECT_NE(fault.find("only 7 of 8 ranks have entered"), std::string::npos) << fault;
}

TEST(barrier_sabotage, a_lost_signal_or_a_wrong_peer_is_noticed) {
  const auto good = barriers(6);
  for (op_id id = 0; id < good[2]->ops().size(); ++id) {
    if (good[2]->ops()[id].kind != op_kind::signal_send) continue;
    auto lost = good;
    lost[2] = with_op(*good[2], id, [](op& it) { it = {.need = it.need}; });
    EXPECT_NE(symbolic_world(lost, {}).run(), "");
    auto astray = good;
    astray[2] = with_op(*good[2], id, [](op& it) { it.peer = it.peer == 5 ? 0 : 5; });
    EXPECT_NE(symbolic_world(astray, {}).run(), "");
  }
}

}  // namespace
}  // namespace lsched::testing
