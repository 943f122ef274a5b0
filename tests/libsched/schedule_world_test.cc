#include "libsched/schedule_world.h"

#include <gtest/gtest.h>

#include <bit>
#include <set>

#include "collectives/selection.h"
#include "libsched/window.h"
#include "tests/support/list_gather.h"
#include "tests/support/symbolic_world.h"

namespace lsched {
namespace {

constexpr picoseconds k_us = 1'000'000;

std::vector<schedule_ptr> world_of(rank size, std::string_view collective, std::string_view algorithm,
                                   std::uint64_t count, activation starts = {}) {
  const shape data{.count = count, .type = dtype::f32, .what = kernel::sum};
  return testing::whole_world(size, [&](world place) {
    return generate(collective, algorithm, place, collective == "barrier" ? shape{} : data, starts);
  });
}

simulation_report simulated(const std::vector<schedule_ptr>& ranks, const simulation& what,
                            simulation_record* record = nullptr, bool trace = false) {
  auto report = simulate_schedules(ranks, what, record, trace);
  EXPECT_TRUE(report) << report.error().text;
  return report ? std::move(*report) : simulation_report{};
}

using pairs = std::multiset<std::pair<rank, rank>>;

pairs pairs_of(const program& what) {
  pairs found;
  std::visit(
      [&](const auto& it) {
        for (rank r = 0; r < it.size; ++r)
          for (std::uint32_t i = 0; it.at(r, i).kind != step_kind::end; ++i)
            if (it.at(r, i).kind == step_kind::send) found.emplace(r, it.at(r, i).peer);
      },
      what);
  return found;
}

pairs pairs_of(const simulation_record& record) {
  pairs found;
  for (const simulated_op& it : record.ops)
    if (it.kind == op_kind::send || it.kind == op_kind::signal_send) found.emplace(it.who, it.peer);
  return found;
}

// The programs are second readings of these generators: the same messages, and the same times wherever order cannot
// make a difference.
TEST(schedule_world, programs_are_what_the_generators_write) {
  for (const rank size : {1, 2, 3, 5, 6, 7, 8, 13, 16, 17, 64}) {
    const std::vector<std::tuple<std::string_view, std::string_view, program>> twins{
        {"allreduce", "recursive_doubling", recursive_doubling_program{size, 400}},
        {"allreduce", "tree", tree_program{size, 400}},
        {"barrier", "dissemination", dissemination_program{size, k_signal_bytes}}};
    for (const auto& [collective, algorithm, twin] : twins) {
      simulation_record record;
      simulation what{.what = twin};
      what.where.levels[0].cost.G = what.where.levels[0].cost.g = 0;
      const auto written = simulated(world_of(size, collective, algorithm, 100), what, &record);
      const auto read = *simulate_window(what);
      EXPECT_EQ(pairs_of(record), pairs_of(twin)) << algorithm << " " << size;
      EXPECT_EQ(written.messages + written.signals, read.messages);
      if (algorithm != "tree" && (size & (size - 1)) == 0) {
        EXPECT_EQ(written.finish, read.finish) << algorithm << " " << size;
      }
    }
  }
}

struct twin {
  std::string_view collective, algorithm;
  program read;
};

std::vector<twin> twins_of(rank size, std::uint64_t floats) {
  return {{"allreduce", "recursive_doubling", recursive_doubling_program{size, 4 * floats}},
          {"allreduce", "tree", tree_program{size, 4 * floats}}};
}

TEST(schedule_world, rendezvous_takes_as_long_as_in_programs) {
  for (const rank size : {2, 4, 8, 64})
    for (const std::uint64_t floats : {1u, 100u, 20'000u})
      for (const picoseconds g : {picoseconds{0}, k_us})
        for (const twin& it : twins_of(size, floats)) {
          if (it.algorithm == "tree" && size > 2) continue;  // brothers arrive in their own order
          simulation what{.what = it.read};
          what.where.S = 0;
          what.where.compute = 100'000;
          what.where.levels[0].cost.g = g;
          const auto written = simulated(world_of(size, it.collective, it.algorithm, floats), what);
          EXPECT_EQ(written.finish, simulate_window(what)->finish) << it.algorithm << " " << size << " " << floats;
        }
}

TEST(schedule_world, rendezvous_waits_for_its_receiver_as_in_programs) {
  for (const rank size : {2, 3, 5, 8})
    for (const twin& it : twins_of(size, 20'000)) {
      simulation what{.what = it.read, .skew = {.kind = skew_kind::linear, .scale = 10'000 * k_us}};
      const auto written = simulated(world_of(size, it.collective, it.algorithm, 20'000), what);
      const auto read = *simulate_window(what);
      ASSERT_EQ(written.finish.size(), read.finish.size());
      EXPECT_EQ(written.last(), read.last()) << it.algorithm << " " << size;
      what.where.S = 100'000;
      EXPECT_GT(written.last(), simulated(world_of(size, it.collective, it.algorithm, 20'000), what).last());
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

TEST(schedule_world, counts_on_the_critical_path_what_programs_and_formulas_count) {
  for (const rank size : {2, 4, 16})
    for (const std::uint64_t most_eager : {0u, 65'535u})
      for (const twin& it : twins_of(size, 1000)) {
        if (it.algorithm == "tree" && size > 2) continue;
        simulation what{.what = it.read};
        what.where.S = most_eager;
        what.where.compute = 100'000;
        const auto written = simulated(world_of(size, it.collective, it.algorithm, 1000), what, nullptr, true);
        ASSERT_TRUE(written.critical_path);
        EXPECT_EQ(*written.critical_path, *simulate_window(what, true)->critical_path) << it.algorithm << " " << size;
        const std::int64_t hops = std::bit_width(static_cast<unsigned>(size)) - 1;
        if (it.algorithm == "tree") continue;
        const path_parts formula{.L = (most_eager == 0 ? 3 : 1) * hops,
                                 .o = (most_eager == 0 ? 3 : 2) * hops,
                                 .G_bytes = 3999 * hops,
                                 .compute_bytes = 4000 * hops};
        EXPECT_EQ(*written.critical_path, formula);
      }
}

TEST(schedule_world, the_critical_path_adds_up_under_skew_and_noise) {
  for (const std::uint64_t most_eager : {0u, 65'535u})
    for (const algorithm& it : algorithms()) {
      const shape data = typical_shape(*it.of, 13, 1000, dtype::f32, kernel::sum);
      const activation starts{.policy = it.of->activates ? activation_policy::solo : activation_policy::none};
      if (objection(it, {0, 13}, data, starts)) continue;
      const auto ranks = testing::whole_world(13, [&](world place) { return it.generate(place, data, starts); });
      simulation what{.skew = {.kind = skew_kind::uniform, .scale = 9 * k_us},
                      .noise = {.kind = noise_kind::exponential, .scale = k_us, .jitter = k_us}};
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

TEST(schedule_world, sees_that_a_program_is_another_ones) {
  simulation_record record;
  simulated(world_of(6, "allreduce", "recursive_doubling", 1), {}, &record);
  EXPECT_NE(pairs_of(record), pairs_of(tree_program{6, 4}));
}

TEST(schedule_world, partial_rounds_wake_and_count_as_the_program_does) {
  for (const rank size : {1, 2, 3, 5, 7, 8, 12, 16})
    for (rank initiator = 0; initiator < size; ++initiator)
      for (const activation_policy policy : {activation_policy::solo, activation_policy::majority}) {
        simulation what{.what = recursive_doubling_program{size, 4},
                        .skew = {.kind = skew_kind::linear, .scale = 1000 * k_us},
                        .starts = {.policy = policy},
                        .initiator = initiator};
        const auto written =
            simulated(world_of(size, "partial_allreduce", "recursive_doubling", 1, {.policy = policy}), what);
        const auto read = *simulate_window(what);
        EXPECT_EQ(written.active, read.active) << size << " " << initiator;
        EXPECT_EQ(written.signals, read.signals);
        EXPECT_EQ(written.messages, read.messages);
        EXPECT_NEAR(static_cast<double>(written.last()), static_cast<double>(read.last()), 5.0 * k_us);
      }
}

TEST(schedule_world, every_registered_generator_ends) {
  for (const algorithm& it : algorithms())
    for (const rank size : {1, 2, 3, 5, 6, 7, 8, 17}) {
      const shape data = typical_shape(*it.of, size, 10, dtype::f32, kernel::sum);
      const activation starts{.policy = it.of->activates ? activation_policy::solo : activation_policy::none};
      if (objection(it, {0, size}, data, starts)) continue;
      const auto ranks = testing::whole_world(size, [&](world place) { return it.generate(place, data, starts); });
      const auto report = simulated(ranks, {.skew = {.kind = skew_kind::lognormal, .scale = 10 * k_us}});
      EXPECT_EQ(report.messages, it.cost_of(size, data, starts).messages) << it.name << " " << size;
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

TEST(schedule_world, refuses_nics_that_ranks_share) {
  simulation what;
  what.where.levels = {{.ranks = 2, .shares_nic = true}, {}};
  EXPECT_EQ(simulate_schedules(world_of(4, "allreduce", "tree", 1), what).error().code, status::unsupported);
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

}  // namespace
}  // namespace lsched
