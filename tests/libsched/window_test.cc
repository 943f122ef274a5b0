#include "libsched/window.h"

#include <gtest/gtest.h>

#include "libsched/closed_form.h"

namespace lsched {
namespace {

constexpr picoseconds k_us = 1'000'000;

simulation_report simulated(const simulation& what, bool trace = false) {
  auto report = simulate_window(what, trace);
  EXPECT_TRUE(report) << report.error().text;
  return report ? std::move(*report) : simulation_report{};
}

std::vector<program> programs(rank size, std::uint64_t bytes) {
  return {recursive_doubling_program{size, bytes}, tree_program{size, bytes}, tree_program{size, bytes, 2, true},
          dissemination_program{size}, ring_program{size, bytes}};
}

TEST(window, agrees_with_every_closed_form) {
  for (const rank size : {1, 2, 4, 8, 64})
    for (const std::uint64_t bytes : {0u, 1u, 64u, 4096u, 65536u * 64u}) {
      auto all = programs(size, bytes);
      all.push_back(gather_program{size, std::min<std::uint64_t>(bytes, 4096)});
      for (const program& it : all) {
        simulation what{.what = it};
        what.where.compute = 100'000;
        const auto known = closed_form(what);
        if (!known) continue;
        EXPECT_EQ(simulated(what).last(), *known) << it.index() << ", P " << size << ", " << bytes << " B";
      }
    }
}

TEST(window, a_rendezvous_hop_costs_three_latencies_and_three_overheads) {
  const simulation what{.what = gather_program{2, 100'000}};
  const loggops cost;
  EXPECT_EQ(simulated(what).last(), 3 * cost.o + 3 * cost.L + 99'999 * cost.G / 1000);
}

TEST(window, rendezvous_waits_for_the_receiver_and_eager_does_not) {
  for (const std::uint64_t bytes : {64u, 100'000u}) {
    simulation what{.what = gather_program{2, bytes}};
    what.skew = {.kind = skew_kind::empirical, .samples = {}};
    const picoseconds both_ready = simulated(what).last();
    for (std::uint64_t seed = 1; seed < 20; ++seed) {
      what.skew = {.kind = skew_kind::stragglers, .scale = 10'000 * k_us, .count = 1, .seed = seed};
      if (start_times(what.skew, 2)(0) == 0) continue;  // the receiver is to be late
      const auto report = simulated(what);
      const picoseconds late = report.finish[0] - 10'000 * k_us;
      if (bytes == 64) {
        EXPECT_EQ(late, loggops{}.o);
      } else {
        EXPECT_GT(late, both_ready / 2);
      }
    }
  }
}

TEST(window, every_rank_ends_for_every_world_size) {
  for (rank size = 1; size <= 65; ++size)
    for (const program& it : programs(size, 1000)) {
      const auto report = simulated({.what = it, .skew = {.kind = skew_kind::lognormal}});
      EXPECT_EQ(report.finish.size(), static_cast<std::size_t>(size));
    }
}

TEST(window, skew_is_absorbed_and_never_amplified) {
  for (const rank size : {2, 3, 8, 17, 64})
    for (const std::uint64_t seed : {1u, 2u, 3u}) {
      simulation what{.what = recursive_doubling_program{size, 1024}};
      what.where.levels[0].cost.G = what.where.levels[0].cost.g = 0;  // queues at NICs may amplify it
      const picoseconds together = simulated(what).last();
      what.skew = {.kind = skew_kind::lognormal, .scale = 20 * k_us, .seed = seed};
      const start_times starts(what.skew, size);
      picoseconds latest = 0;
      for (rank r = 0; r < size; ++r) latest = std::max(latest, starts(r));
      const picoseconds last = simulated(what).last();
      EXPECT_GE(last, latest);
      EXPECT_LE(last, latest + together);
    }
}

TEST(window, far_events_come_in_time_too) {
  // Windows are 4 us; 17 ms is as far as the ring of the calendar reaches.
  simulation what{.what = recursive_doubling_program{8, 8},
                  .skew = {.kind = skew_kind::linear, .scale = 50'000 * k_us}};
  const picoseconds last = simulated(what).last();
  EXPECT_GT(last, 350'000 * k_us);
  EXPECT_LT(last, 350'100 * k_us);
  what.where.levels[0].cost.L = 40'000 * k_us;
  what.where.levels[0].cost.o = 1;
  what.where.levels[0].cost.G = 100'000'000'000;
  EXPECT_GT(simulated(what).last(), last);
}

TEST(window, the_critical_path_adds_up_and_is_the_derivative) {
  simulation what{.what = recursive_doubling_program{13, 1000},
                  .skew = {.kind = skew_kind::uniform, .scale = 9 * k_us}};
  what.noise = {.kind = noise_kind::exponential, .scale = k_us, .jitter = k_us};
  what.where.compute = 250'000;
  const auto report = simulated(what, true);
  ASSERT_TRUE(report.critical_path);
  const path_parts& path = *report.critical_path;
  const loggops cost;
  EXPECT_EQ(report.last(), path.start + path.noise + path.L * cost.L + path.o * cost.o + path.g * cost.g +
                               path.G_bytes * cost.G / 1000 + path.compute_bytes * 250);
  EXPECT_GT(path.L, 0);
  EXPECT_GT(path.noise, 0);
  EXPECT_EQ(report.finish, simulated(what).finish);
  what.where.levels[0].cost.L += 1;
  EXPECT_EQ(simulated(what).last() - report.last(), path.L);
}

TEST(window, a_rank_that_is_slow_by_a_factor_has_o_and_O_that_much_larger) {
  for (const double factor : {0.5, 3.0})
    for (const std::uint64_t most_eager : {0u, 65'535u}) {
      simulation slow{.what = recursive_doubling_program{16, 1000}};
      slow.where.S = most_eager;
      slow.where.compute = 250'000;
      slow.where.levels[0].cost.O = 1'000'000;
      simulation costly = slow;
      slow.noise.pace = {.slow_share = 1, .slow_factor = factor};
      loggops& cost = costly.where.levels[0].cost;
      cost.o = static_cast<picoseconds>(static_cast<double>(cost.o) * factor);
      cost.O = static_cast<femtoseconds>(static_cast<double>(cost.O) * factor);
      costly.where.compute = static_cast<femtoseconds>(static_cast<double>(costly.where.compute) * factor);
      // The tail is what the wire takes longer than CPUs that are not slowed.
      const picoseconds shorter_tail = time_of(999, cost.O) - time_of(999, 1'000'000);
      EXPECT_EQ(simulated(slow).last(), simulated(costly).last() + 4 * shorter_tail);
    }
}

TEST(window, levels_cost_what_they_say) {
  simulation what{.what = recursive_doubling_program{8, 1}};
  what.where.levels = {{.ranks = 4, .cost = {.L = 100, .o = 10, .g = 0, .G = 0}},
                       {.cost = {.L = 1000, .o = 10, .g = 0, .G = 0}}};
  EXPECT_EQ(simulated(what).last(), 2 * 120 + 1020);
}

/// Nodes of `ranks`, in which messages are free but for a nanosecond, with one NIC each.
machine nodes_of(rank ranks, bool shares_nic) {
  return {.levels = {{.ranks = ranks, .cost = {.L = 1000, .o = 0, .g = 0, .G = 0}, .shares_nic = shares_nic}, {}}};
}

TEST(window, ranks_of_a_node_wait_for_each_other_at_the_nic_they_share) {
  for (const rank node : {1, 2, 4, 8})
    for (const std::uint64_t bytes : {1u, 1000u, 100'000u}) {
      simulation what{.what = recursive_doubling_program{2 * node, bytes}, .where = nodes_of(node, false)};
      const picoseconds apart = simulated(what).last();
      what.where = nodes_of(node, true);
      what.where.levels[0].cost.o = 0;
      const auto shared = simulated(what);
      const loggops cost;
      const auto gap = static_cast<picoseconds>(cost.g + time_of(bytes - 1, cost.G));
      EXPECT_EQ(shared.last(), apart + (node - 1) * gap) << node << " " << bytes;  // the last one's bytes leave last
      EXPECT_EQ(simulated(what, true).finish, shared.finish);
    }
}

TEST(window, who_sends_first_has_the_shared_nic_first_whatever_its_rank) {
  simulation what{.what = gather_program{4, 1000}, .where = nodes_of(2, true)};
  what.where.levels[0].cost.L = 4 * k_us;                               // windows of 2 us
  what.skew = {.kind = skew_kind::fixed, .scale = k_us, .ranks = {2}};  // its neighbour 3 begins before it
  const loggops cost;
  const picoseconds bytes = 999 * cost.G / 1000;
  EXPECT_EQ(simulated(what).last(), cost.o + (cost.g + bytes) + cost.L + bytes + 2 * cost.o);
}

TEST(window, a_nic_for_each_rank_is_a_nic_for_each_rank) {
  for (const program& it : programs(13, 1000)) {
    simulation what{.what = it, .skew = {.kind = skew_kind::lognormal, .scale = 9 * k_us}};
    what.where.levels = {{.ranks = 1, .shares_nic = true}, {}};
    const auto shared = simulated(what);
    what.where.levels[0].shares_nic = false;
    EXPECT_EQ(shared.finish, simulated(what).finish);
    what.where.levels = {{.ranks = 13, .shares_nic = true}, {}};  // nobody is outside
    EXPECT_EQ(simulated(what).finish, shared.finish);
  }
}

TEST(window, a_million_ranks_fit_into_64_bytes_each_soak) {
  simulation what{.what = recursive_doubling_program{1 << 20, 1024}, .skew = {.kind = skew_kind::lognormal}};
  const auto report = simulated(what);
  EXPECT_EQ(report.messages, 20u << 20);
  EXPECT_LE(report.memory, std::size_t{64} << 20);
}

TEST(window, refuses_what_it_cannot_order) {
  simulation what{.what = recursive_doubling_program{4, 8}};
  what.where.levels[0].cost = {.L = 0, .o = 0};
  EXPECT_EQ(simulate_window(what).error().code, status::argument);
  what.where.levels[0].cost = {};
  what.what = tree_program{4, 8};
  what.starts = {.policy = activation_policy::solo};
  EXPECT_EQ(simulate_window(what).error().code, status::unsupported);
  what = {.what = recursive_doubling_program{8, 8}, .skew = {.kind = skew_kind::linear, .scale = 600'000'000 * k_us}};
  EXPECT_EQ(simulate_window(what).error().code, status::argument);  // more than an hour
}

// --- activation --------------------------------------------------------------------------------------------

TEST(window_activation, one_initiator_costs_one_signal_for_every_other_rank) {
  for (rank size = 1; size <= 33; ++size)
    for (rank initiator = 0; initiator < size; ++initiator) {
      const auto report = simulated({.what = recursive_doubling_program{size, 8},
                                     .skew = {.kind = skew_kind::linear},
                                     .starts = {.policy = activation_policy::majority},
                                     .initiator = initiator});
      EXPECT_EQ(report.signals, static_cast<std::uint64_t>(size - 1)) << size << " " << initiator;
      EXPECT_EQ(report.active, initiator + 1);
    }
}

TEST(window_activation, latencies_follow_the_closed_forms_under_linear_skew) {
  constexpr rank size = 32;
  const start_skew skew{.kind = skew_kind::linear};
  simulation what{.what = recursive_doubling_program{size, 64}, .skew = skew};
  const start_times calls(skew, size);
  const auto near = [](picoseconds x, picoseconds y) { return std::abs(x - y) <= y / 50 + 30 * k_us; };

  EXPECT_TRUE(near(mean_latency(simulated(what), calls), latency_under_linear_skew(size, skew.scale, 0).synchronous));
  what.starts = {.policy = activation_policy::solo};
  const auto solo = simulated(what);
  EXPECT_EQ(solo.active, 1);
  EXPECT_LE(mean_latency(solo, calls), latency_under_linear_skew(size, skew.scale, solo.last()).solo);
  what.starts = {.policy = activation_policy::majority};
  picoseconds total = 0;
  for (what.initiator = 0; what.initiator < size; ++what.initiator) total += mean_latency(simulated(what), calls);
  EXPECT_TRUE(near(total / size, latency_under_linear_skew(size, skew.scale, 0).majority));
}

}  // namespace
}  // namespace lsched
