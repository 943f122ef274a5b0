#include "libsched/simulate/simulation.h"
#include "collectives/requests/sample_requests.h"

#include <gtest/gtest.h>

#include "collectives/selection.h"
#include "tests/support/list_gather.h"
#include "tests/support/simulated_world.h"

namespace lsched {
namespace {

using testing::collective_world;
using testing::doubling_world;
using testing::k_us;
using testing::simulated;

/// Returns the time of one message without contention.
picoseconds hop(const machine& where, std::uint64_t bytes) {
  const message_cost it = cost_of(where, 0, bytes);
  const picoseconds first = picoseconds{0} + it.overhead + it.latency;
  return (it.is_eager ? first : first + it.overhead + it.latency + it.latency) + it.tail + it.receiver;
}

picoseconds combination(const machine& where, std::uint64_t bytes) { return cost_of(where, 0, bytes).combination.time; }

/// Returns machine descriptions. On these machines, no message waits for a NIC or for the previous send if all ranks
/// begin at the same time.
std::vector<machine> machines(std::uint64_t bytes) {
  std::vector<machine> all;
  for (const picoseconds L : {0, 1000, 2'500'000, 70'000'000})
    for (const picoseconds o : {1000, 1'500'000})
      for (const picoseconds g : {0, 1'000'000})
        for (const femtoseconds G : {0, 40'000, 6'000'000})
          for (const femtoseconds O : {0, 30'000, 9'000'000})
            for (const std::uint64_t most_eager : {0u, 10u, 1'000'000u}) {
              machine it{.S = most_eager, .compute = 1'000'000};
              it.levels[0].cost = {.L = L, .o = o, .g = g, .G = G, .O = O};
              const message_cost cost = cost_of(it, 0, bytes);
              const picoseconds arrival = o + L + cost.tail.time;
              if (std::max(cost.gap.time, cost.sender.time) <= arrival && (L > 0 || most_eager > bytes))
                all.push_back(it);
            }
  return all;
}

TEST(schedule_world, takes_what_closed_forms_say) {
  for (const std::uint64_t bytes : {1u, 8u, 1024u, 100'000u})
    for (const rank size : {2, 4, 8, 32}) {
      const auto doubling = doubling_world(size, bytes);
      const auto barrier = collective_world(size - 1, "barrier", "dissemination", 0);
      for (const machine& where : machines(bytes)) {
        const picoseconds step = hop(where, bytes) + combination(where, bytes);
        EXPECT_EQ(simulated(doubling, {.where = where}).last(), floor_log2(size) * step) << size << " " << bytes;
      }
      for (machine where : machines(k_signal_bytes)) {
        where.S = k_signal_bytes;  // signals are always eager
        if (bytes != 1) continue;
        EXPECT_EQ(simulated(barrier, {.where = where}).last(), ceil_log2(size - 1) * hop(where, k_signal_bytes))
            << size;
      }
    }
}

TEST(schedule_world, a_ring_takes_two_hops_of_a_block_for_every_other_rank) {
  for (const rank size : {2, 3, 5, 8, 16})
    for (const std::uint64_t block : {1u, 1024u})
      for (const machine& where : machines(block)) {
        if (where.levels[0].cost.o < 1'000'000 || where.levels[0].cost.O > where.levels[0].cost.G) continue;
        const auto ranks = collective_world(size, "allreduce", "ring", block * static_cast<std::uint64_t>(size));
        const picoseconds steps = size - 1, passes = combination(where, block);
        EXPECT_GE(simulated(ranks, {.where = where}).last(), 2 * steps * hop(where, block) + steps * passes);
      }
}

TEST(schedule_world, a_buffer_is_free_when_its_bytes_have_left) {
  for (const std::uint64_t bytes : {100u, 100'000u}) {
    simulation_record record;
    const auto ranks = testing::whole_world(2, [&](world place) {
      builder to(place);
      const region data{place.self == 0 ? to.input(dtype::u8, bytes) : to.scratch(dtype::u8, bytes), 0};
      if (place.self == 0)
        to.set_exit(to.nop({to.send(1, 0, data, bytes)}));
      else
        to.recv(0, 0, data, bytes);
      return to.compile();
    });
    const loggops cost;
    const picoseconds left = bytes == 100 ? cost.o : 2 * cost.o + 2 * cost.L + cost.g + 99'999 * cost.G / 1000;
    EXPECT_EQ(simulated(ranks, {}, &record).finish[0], left);
  }
}

TEST(schedule_world, the_critical_path_adds_up_under_skew_and_noise) {
  for (const std::uint64_t most_eager : {0u, 65'535u})
    for (const algorithm& it : algorithms()) {
      const shape data = typical_shape(*it.of, 13, 1000, dtype::f32, kernel::sum);
      const activation starts{.policy = it.of->activates ? activation_policy::solo : activation_policy::none};
      if (validate(it, {0, 13}, data, starts)) continue;
      const auto ranks = testing::whole_world(13, [&](world place) { return it.generate(place, data, starts); });
      simulation what{.skew = {.kind = skew_kind::lognormal, .scale = 9 * k_us}, .noise = {.mean = k_us}};
      what.where.S = most_eager;
      what.where.compute = 250'000;
      const auto report = simulated(ranks, what, nullptr, true);
      const path_parts& path = *report.critical_path;
      const loggops cost;
      EXPECT_EQ(report.last(), path.start + path.noise + path.L * cost.L + path.o * cost.o + path.g * cost.g +
                                   path.G_bytes * cost.G / 1000 + path.compute_bytes * 250)
          << it.name;
      EXPECT_GT(path.noise, 0);
      EXPECT_EQ(report.finish, simulated(ranks, what).finish);
    }
}

TEST(schedule_world, every_registered_generator_ends) {
  for (const algorithm& it : algorithms())
    for (const rank size : {1, 2, 3, 5, 6, 7, 8, 17}) {
      const shape data = typical_shape(*it.of, size, 10, dtype::f32, kernel::sum);
      const activation starts{.policy = it.of->activates ? activation_policy::solo : activation_policy::none};
      if (validate(it, {0, size}, data, starts)) continue;
      const auto ranks = testing::whole_world(size, [&](world place) { return it.generate(place, data, starts); });
      const auto report = simulated(ranks, {.skew = {.kind = skew_kind::lognormal, .scale = 10 * k_us}});
      EXPECT_EQ(report.messages, cost_of_round(it, size, data, starts).messages) << it.name << " " << size;
    }
}

TEST(schedule_world, a_quorum_fires_with_the_second_signal) {
  const auto ranks = testing::whole_world(4, [](world place) {
    builder to(place);
    if (place.self == 0) {
      const op_id gate = to.nop({to.signal_recv(1, 0), to.signal_recv(2, 0), to.signal_recv(3, 0)});
      to.set_need(gate, 2);
      to.set_exit(gate);
    } else {
      to.set_exit(to.signal_send(0, 0));
    }
    return to.compile();
  });
  const auto report = simulated(ranks, {.skew = {.kind = skew_kind::linear, .scale = 1000 * k_us}});
  EXPECT_GT(report.finish[0], 2000 * k_us);
  EXPECT_LT(report.finish[0], 2100 * k_us);
}

/// The exit of rank 1 (the op that ends its round) is a send, but rank 1 also receives a message. The round must end
/// after the receive, even if the send completes first.
TEST(schedule_world, a_round_does_not_end_before_what_is_enqueued) {
  std::vector<picoseconds> finishes;
  for (const bool sends_first : {false, true}) {
    const auto ranks = testing::whole_world(2, [&](world place) {
      builder to(place);
      const buffer_id in = to.input(dtype::u8, 1), out = to.output(dtype::u8, 1);
      if (place.self == 0) {
        to.send(1, 1, {in, 0}, 1, {to.recv(1, 0, {out, 0}, 1)});
        return to.compile();
      }
      if (!sends_first) to.recv(0, 1, {out, 0}, 1);
      to.set_exit(to.send(0, 0, {in, 0}, 1));
      if (sends_first) to.recv(0, 1, {out, 0}, 1);
      return to.compile();
    });
    const auto report = simulated(ranks, {});
    EXPECT_GT(report.finish[1], report.finish[0]);  // rank 1 receives from rank 0
    finishes.push_back(report.finish[1]);
  }
  EXPECT_EQ(finishes[0], finishes[1]);
}

TEST(schedule_world, a_round_that_waits_for_everybody_begins_with_the_last_call) {
  const auto ranks = doubling_world(4, 8, {.policy = activation_policy::solo, .full_every = 2});
  simulation what{.skew = {.kind = skew_kind::linear, .scale = 1000 * k_us}};
  EXPECT_LT(simulated(ranks, what).finish[0], 1000 * k_us);
  what.instance = 2;
  EXPECT_GT(simulated(ranks, what).finish[0], 3000 * k_us);
}

TEST(schedule_world, what_arrives_at_once_is_taken_in_the_order_of_ranks) {
  for (const bool is_traced : {false, true}) {
    simulation_record record;
    simulated(collective_world(5, "gather", "flat", 8), {}, &record, is_traced);
    std::vector<rank> sources;
    for (const simulated_op& it : record.ops)
      if (it.kind == op_kind::recv) sources.push_back(it.peer);
    EXPECT_EQ(sources, (std::vector<rank>{1, 2, 3, 4}));
  }
}

TEST(schedule_world, leaves_out_what_is_void) {
  for (const rank size : {2, 3, 5})
    for (const std::uint64_t typical : {0u, 2u})
      for (const round_no round : {1u, 2u, 3u}) {
        simulation what;
        what.instance = round;
        const auto ranks = testing::list_gather_world(size, {.typical = typical});
        const auto all = static_cast<std::uint64_t>(size), edges = all * (all - 1);
        EXPECT_EQ(simulated(ranks, what).messages, edges * (typical == 0 ? 1 : 2) + (round % 2 == 1 ? all : 0));
      }
}

TEST(schedule_world, says_who_waits_for_whom) {
  const auto ranks = testing::whole_world(2, [](world place) {
    builder to(place);
    const buffer_id buffer = to.scratch(dtype::u8, 1);
    if (place.self == 0) to.recv(1, 7, {buffer, 0}, 1);
    return to.compile();
  });
  const auto report = simulate_schedules(ranks, {});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, status::state);
  EXPECT_EQ(report.error().peer, 0);
  const auto unreceived = testing::whole_world(2, [](world place) {
    builder to(place);
    const buffer_id buffer = to.input(dtype::u8, 1);
    if (place.self == 0) to.send(1, 7, {buffer, 0}, 1);
    return to.compile();
  });
  EXPECT_EQ(simulate_schedules(unreceived, {}).error().code, status::unmatched);
}

TEST(schedule_world, a_rendezvous_hop_costs_three_latencies_and_three_overheads) {
  const loggops cost;
  EXPECT_EQ(simulated(collective_world(2, "gather", "flat", 100'000)).last(),
            3 * cost.o + 3 * cost.L + 99'999 * cost.G / 1000);
}

TEST(schedule_world, rendezvous_waits_for_the_receiver_and_eager_does_not) {
  for (const std::uint64_t bytes : {64u, 100'000u}) {
    const auto ranks = collective_world(2, "gather", "flat", bytes);
    simulation what;
    const picoseconds both_ready = simulated(ranks, what).last();
    for (std::uint64_t seed = 1; seed < 20; ++seed) {
      what.skew = {.kind = skew_kind::straggler, .scale = 10'000 * k_us, .seed = seed};
      if (start_times(what.skew, 2)(0) == 0) continue;  // skips seeds that do not delay the receiver
      const auto report = simulated(ranks, what);
      const picoseconds late = report.finish[0] - 10'000 * k_us;
      if (bytes == 64) {
        EXPECT_EQ(late, loggops{}.o);
      } else {
        EXPECT_GT(late, both_ready / 2);
      }
    }
  }
}

TEST(schedule_world, skew_is_absorbed_and_never_amplified) {
  for (const rank size : {2, 3, 8, 17, 64})
    for (const std::uint64_t seed : {1u, 2u, 3u}) {
      const auto ranks = doubling_world(size, 1024);
      simulation what;
      what.where.levels[0].cost.G = what.where.levels[0].cost.g = 0;  // queues of a NIC may amplify skew
      const picoseconds together = simulated(ranks, what).last();
      what.skew = {.kind = skew_kind::lognormal, .scale = 20 * k_us, .seed = seed};
      const start_times starts(what.skew, size);
      picoseconds latest = 0;
      for (rank r = 0; r < size; ++r) latest = std::max(latest, starts(r));
      const picoseconds last = simulated(ranks, what).last();
      EXPECT_GE(last, latest);
      // In each step, a rank may first receive a message of a later step that has arrived early. This receive takes
      // time o.
      EXPECT_LE(last, latest + together + floor_log2(size) * loggops{}.o);
    }
}

TEST(schedule_world, far_events_come_in_time_too) {
  // A window of the event queue is 4 us long, and the ring of windows covers 17 ms.
  const auto ranks = doubling_world(8, 8);
  simulation what{.skew = {.kind = skew_kind::linear, .scale = 50'000 * k_us}};
  const picoseconds last = simulated(ranks, what).last();
  EXPECT_GT(last, 350'000 * k_us);
  EXPECT_LT(last, 350'100 * k_us);
  what.where.levels[0].cost.L = 40'000 * k_us;
  what.where.levels[0].cost.o = 1;
  what.where.levels[0].cost.G = 100'000'000'000;
  EXPECT_GT(simulated(ranks, what).last(), last);
}

TEST(schedule_world, the_critical_path_adds_up_and_is_the_derivative) {
  const auto ranks = doubling_world(13, 1000);
  simulation what{.skew = {.kind = skew_kind::lognormal, .scale = 9 * k_us}, .noise = {.mean = k_us}};
  what.where.compute = 250'000;
  const auto report = simulated(ranks, what, nullptr, true);
  ASSERT_TRUE(report.critical_path);
  const path_parts& path = *report.critical_path;
  const loggops cost;
  EXPECT_EQ(report.last(), path.start + path.noise + path.L * cost.L + path.o * cost.o + path.g * cost.g +
                               path.G_bytes * cost.G / 1000 + path.compute_bytes * 250);
  EXPECT_GT(path.L, 0);
  EXPECT_GT(path.noise, 0);
  EXPECT_EQ(report.finish, simulated(ranks, what).finish);
  what.where.levels[0].cost.L += 1;
  EXPECT_EQ(simulated(ranks, what).last() - report.last(), path.L);
}

TEST(schedule_world, levels_cost_what_they_say) {
  simulation what;
  what.where.levels = {{.ranks = 4, .cost = {.L = 100, .o = 10, .g = 0, .G = 0}},
                       {.cost = {.L = 1000, .o = 10, .g = 0, .G = 0}}};
  EXPECT_EQ(simulated(doubling_world(8, 1), what).last(), 2 * 120 + 1020);
}

/// Returns a machine description with `ranks` ranks on each node. A message inside a node takes one nanosecond. If
/// `shares_nic` is set, the ranks of a node share one NIC.
machine nodes_of(rank ranks, bool shares_nic) {
  return {.levels = {{.ranks = ranks, .cost = {.L = 1000, .o = 0, .g = 0, .G = 0}, .shares_nic = shares_nic}, {}}};
}

TEST(schedule_world, ranks_of_a_node_wait_for_each_other_at_the_nic_they_share) {
  for (const rank node : {1, 2, 4, 8})
    for (const std::uint64_t bytes : {1u, 1000u, 100'000u}) {
      const auto ranks = doubling_world(2 * node, bytes);
      simulation what{.where = nodes_of(node, false)};
      const picoseconds apart = simulated(ranks, what).last();
      what.where = nodes_of(node, true);
      what.where.levels[0].cost.o = 0;
      const auto shared = simulated(ranks, what);
      const loggops cost;
      const auto gap = static_cast<picoseconds>(cost.g + time_of(bytes - 1, cost.G));
      EXPECT_EQ(shared.last(), apart + (node - 1) * gap) << node << " " << bytes;  // the last rank waits for all others
      EXPECT_EQ(simulated(ranks, what, nullptr, true).finish, shared.finish);
    }
}

TEST(schedule_world, who_sends_first_has_the_shared_nic_first_whatever_its_rank) {
  // Rank 3 is on the node of rank 2 and begins first.
  simulated_round what{.where = nodes_of(2, true), .starts = [](rank r) { return r == 2 ? k_us : 0; }};
  what.where.levels[0].cost.L = 4 * k_us;  // this gives the event queue windows of 2 us
  const auto world = packed_world::of(collective_world(4, "gather", "flat", 1000));
  const auto report = simulate_round(*world, what);
  ASSERT_TRUE(report) << report.error().text;
  const loggops cost;
  const picoseconds bytes = 999 * cost.G / 1000;
  EXPECT_EQ(report->last(), cost.o + (cost.g + bytes) + cost.L + bytes + cost.o);
}

TEST(schedule_world, a_nic_for_each_rank_is_a_nic_for_each_rank) {
  for (const char* algorithm : {"recursive_doubling", "tree", "ring"}) {
    const auto ranks = collective_world(13, "allreduce", algorithm, 1000);
    simulation what{.skew = {.kind = skew_kind::lognormal, .scale = 9 * k_us}};
    what.where.levels = {{.ranks = 1, .shares_nic = true}, {}};
    const auto shared = simulated(ranks, what);
    what.where.levels[0].shares_nic = false;
    EXPECT_EQ(shared.finish, simulated(ranks, what).finish);
    what.where.levels = {{.ranks = 13, .shares_nic = true}, {}};  // all ranks are on one node
    EXPECT_EQ(simulated(ranks, what).finish, shared.finish);
  }
}

TEST(schedule_world, refuses_what_it_cannot_order) {
  simulation what;
  what.where.levels[0].cost = {.L = 0, .o = 0};
  EXPECT_EQ(simulate_schedules(doubling_world(4, 8), what).error().code, status::argument);
}

// --- activation --------------------------------------------------------------------------------------------

TEST(schedule_world_activation, one_initiator_costs_one_signal_for_every_other_rank) {
  for (rank size = 1; size <= 33; ++size) {
    const auto ranks = doubling_world(size, 8, {.policy = activation_policy::majority});
    for (rank initiator = 0; initiator < size; ++initiator) {
      const auto report = simulated(ranks, {.skew = {.kind = skew_kind::linear}, .initiator = initiator});
      EXPECT_EQ(report.signals, static_cast<std::uint64_t>(size - 1)) << size << " " << initiator;
      EXPECT_EQ(report.active, initiator + 1);
    }
  }
}

// The closed forms are those of Li et al. 2020. Under linear skew, the ranks wait for the last rank, or for a rank that
// is chosen at random.
TEST(schedule_world_activation, latencies_follow_the_closed_forms_under_linear_skew) {
  constexpr rank size = 32;
  simulation what{.skew = {.kind = skew_kind::linear}};
  const start_times calls(what.skew, size);
  const double each = static_cast<double>(what.skew.scale);
  const auto near = [](picoseconds x, double y) { return std::abs(static_cast<double>(x) - y) <= y / 50 + 30 * k_us; };

  EXPECT_TRUE(near(mean_latency(simulated(doubling_world(size, 64), what), calls), (size - 1) / 2.0 * each));
  const auto solo = simulated(doubling_world(size, 64, {.policy = activation_policy::solo}), what);
  EXPECT_EQ(solo.active, 1);
  EXPECT_LE(mean_latency(solo, calls), solo.last());
  const auto majority = doubling_world(size, 64, {.policy = activation_policy::majority});
  picoseconds total = 0;
  for (what.initiator = 0; what.initiator < size; ++what.initiator)
    total += mean_latency(simulated(majority, what), calls);
  EXPECT_TRUE(near(total / size, (size * size - 1) / (6.0 * size) * each));
}

}  // namespace
}  // namespace lsched
