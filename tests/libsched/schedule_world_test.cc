#include "libsched/schedule_world.h"

#include <gtest/gtest.h>

#include <set>

#include "collectives/registry.h"
#include "libsched/window.h"
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
                            simulation_record* record = nullptr) {
  auto report = simulate_schedules(ranks, what, record);
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
  for (const simulated_message& it : record.messages) found.emplace(it.from, it.to);
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
                        .starts = policy,
                        .initiator = initiator};
        const auto written = simulated(
            world_of(size, "partial_allreduce", "recursive_doubling", 1, {.policy = policy}), what);
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
      const shape data = it.needs->moves_data ? shape{.count = 10, .what = kernel::sum} : shape{};
      const activation starts{.policy = it.needs->activates ? activation_policy::solo : activation_policy::none};
      if (objection(*it.needs, {0, size}, data, starts)) continue;
      const auto ranks = testing::whole_world(size, [&](world place) { return it.generate(place, data, starts); });
      const auto report = simulated(ranks, {.skew = {.kind = skew_kind::lognormal, .scale = 10 * k_us}});
      EXPECT_EQ(report.messages, it.cost_of(size, data, starts.policy).messages) << it.name << " " << size;
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

TEST(schedule_world, says_who_waits_for_whom) {
  const auto ranks = testing::whole_world(2, [](world place) {
    builder to(place);
    const buffer_id buffer = to.scratch(dtype::u8, 1);
    if (place.self == 0) to.recv(1, 7, {buffer, 0}, extent::imm(1));
    return to.compile();
  });
  const auto report = simulate_schedules(ranks, {});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, status::state);
  EXPECT_EQ(report.error().peer, 0);
  const auto unreceived = testing::whole_world(2, [](world place) {
    builder to(place);
    const buffer_id buffer = to.input(dtype::u8, 1);
    if (place.self == 0) to.send(1, 7, {buffer, 0}, extent::imm(1));
    return to.compile();
  });
  EXPECT_EQ(simulate_schedules(unreceived, {}).error().code, status::unmatched);
}

}  // namespace
}  // namespace lsched
