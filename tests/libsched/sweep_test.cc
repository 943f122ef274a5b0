#include "libsched/sweep.h"

#include <gtest/gtest.h>

#include "collectives/selection.h"
#include "libsched/closed_form.h"
#include "libsched/schedule_world.h"
#include "libsched/window.h"
#include "tests/support/symbolic_world.h"

namespace lsched {
namespace {

constexpr picoseconds k_us = 1'000'000;

simulation_report both(const simulation& what, simulation_report& window) {
  auto swept = simulate_sweep(what);
  auto played = simulate_window(what);
  EXPECT_TRUE(swept) << swept.error().text;
  EXPECT_TRUE(played) << played.error().text;
  if (!swept || !played) return {};
  window = std::move(*played);
  return std::move(*swept);
}

std::vector<program> programs(rank size, std::uint64_t bytes) {
  return {recursive_doubling_program{size, bytes}, dissemination_program{size}, ring_program{size, bytes}};
}

std::vector<cpu_noise> noises() {
  return {{},
          {.kind = noise_kind::periodic, .scale = k_us, .period = 10 * k_us, .jitter = k_us},
          {.kind = noise_kind::exponential, .scale = k_us},
          {.kind = noise_kind::pareto, .scale = k_us, .alpha = 1.5, .jitter = k_us},
          {.kind = noise_kind::trace, .trace = *noise_trace::from({{3 * k_us, k_us}, {9 * k_us, 2 * k_us}})},
          {.pace = {.cv = 0.3, .slow_share = 0.1, .slow_factor = 3}}};
}

TEST(sweep, says_what_the_window_and_the_closed_form_say_when_all_begin_at_once) {
  for (const rank size : {1, 2, 3, 5, 6, 7, 8, 16, 33, 64, 128})
    for (const std::uint64_t bytes : {0u, 1u, 1000u, 60'000u})
      for (const program& it : programs(size, bytes)) {
        simulation_report window;
        const simulation what{.what = it};
        const auto swept = both(what, window);
        // A proxy's extra and its first partner send to it at once: those two may queue.
        const bool is_folded = it.index() == 0 && (size & (size - 1)) != 0;
        EXPECT_TRUE(is_folded || window.nic_waits == 0);
        if (window.nic_waits == 0) {
          EXPECT_EQ(swept.finish, window.finish) << it.index() << " P " << size << " bytes " << bytes;
        }
        EXPECT_EQ(swept.messages, window.messages);
        EXPECT_EQ(swept.bytes, window.bytes);
        const auto known = closed_form(what);
        EXPECT_EQ(swept.last(), known ? *known : window.last());
      }
}

TEST(sweep, says_what_the_window_says_wherever_no_message_queued_and_never_more) {
  int exact = 0, queued = 0;
  for (const rank size : {2, 3, 5, 7, 8, 16, 33, 64})
    for (const cpu_noise& noise : noises())
      for (const picoseconds skew : {k_us, 100 * k_us})
        for (const std::uint64_t seed : {1u, 2u, 3u})
          for (const program& it : programs(size, 1024)) {
            simulation_report window;
            const auto swept =
                both({.what = it, .skew = {.kind = skew_kind::lognormal, .scale = skew, .seed = seed}, .noise = noise},
                     window);
            if (window.nic_waits == 0) {
              ++exact;
              EXPECT_EQ(swept.finish, window.finish);
              continue;
            }
            ++queued;
            if (!noise.is_silent()) continue;  // a later begin may meet less noise
            for (std::size_t r = 0; r < swept.finish.size(); ++r) EXPECT_LE(swept.finish[r], window.finish[r]);
          }
  EXPECT_GT(exact, 100);
  EXPECT_GT(queued, 100);
}

TEST(sweep, agrees_with_the_window_under_any_skew_where_messages_need_no_gap) {
  for (const rank size : {7, 64, 4096, 8192}) {  // the last one leaves its tile
    simulation what{.what = recursive_doubling_program{size, 1024}, .skew = {.kind = skew_kind::lognormal}};
    what.where.levels[0].cost.g = what.where.levels[0].cost.G = 0;
    simulation_report window;
    EXPECT_EQ(both(what, window).finish, window.finish) << size;
  }
}

TEST(sweep, agrees_on_machines_of_several_levels) {
  simulation what{.what = recursive_doubling_program{48, 100}};
  what.where.levels = {{.ranks = 4, .cost = {.L = 300'000, .o = 100'000, .g = 10, .G = 20'000}},
                       {.ranks = 16, .cost = {.L = 900'000, .o = 200'000, .g = 10, .G = 40'000}},
                       {}};
  simulation_report window;
  EXPECT_EQ(both(what, window).finish, window.finish);
}

/// Of what all ranks do at once there is a formula; and the schedules, op by op, say the same.
TEST(sweep, knows_halving_as_its_schedules_do) {
  for (const rank size : {2, 4, 8, 16, 64})
    for (const std::uint64_t floats : {0u, 64u, 4096u})
      for (const bool is_adaptive : {false, true}) {
        simulation what{.what = halving_program{size, 4 * floats, is_adaptive}};
        what.where.compute = 100'000;
        what.where.S = 1 << 20;
        what.where.levels[0].cost.g = what.where.levels[0].cost.G = 0;
        const auto swept = simulate_sweep(what);
        ASSERT_TRUE(swept) << swept.error().text;
        EXPECT_EQ(swept->last(), *closed_form(what));
        const auto programs = testing::whole_world(size, [&](world place) {
          return is_adaptive ? generate("adasum", "halving", place, {.count = floats})
                             : generate("allreduce", "rabenseifner", place, {.count = floats, .what = kernel::sum});
        });
        const auto written = simulate_schedules(programs, what);
        ASSERT_TRUE(written) << written.error().text;
        EXPECT_EQ(swept->last(), written->last()) << size << " ranks, " << floats << (is_adaptive ? " adaptive" : "");
        if (floats == 0) continue;  // then there are no sums
        EXPECT_EQ(swept->messages, written->messages);
        EXPECT_EQ(swept->bytes, written->bytes);
      }
}

TEST(sweep, sums_that_travel_take_their_hops) {
  for (const rank size : {2, 64, 1024}) {
    const halving_program with{size, 64, true, true}, without{size, 64, true, false};
    simulation what{.what = with};
    const picoseconds time = *closed_form(what);
    what.what = without;
    const picoseconds hop = *closed_form({.what = recursive_doubling_program{2, halving_program::k_sums_bytes}});
    const int levels = floor_log2(size);
    EXPECT_EQ(time - *closed_form(what), levels * (levels + 1) / 2 * hop) << size;
  }
}

TEST(sweep, refuses_what_has_no_rounds) {
  EXPECT_EQ(simulate_sweep({.what = gather_program{4, 8}}).error().code, status::unsupported);
  EXPECT_EQ(simulate_sweep({.what = tree_program{4, 8}}).error().code, status::unsupported);
  EXPECT_EQ(simulate_sweep({.what = recursive_doubling_program{4, 1 << 20}}).error().code, status::unsupported);
  EXPECT_EQ(simulate_sweep({.starts = {.policy = activation_policy::solo}}).error().code, status::unsupported);
}

}  // namespace
}  // namespace lsched
