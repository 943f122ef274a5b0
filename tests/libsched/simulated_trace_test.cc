// Simulated runs as traces: what the ranks did, with arrows that have two ends.
#include "libsched/simulated_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "collectives/selection.h"
#include "libsched/schedule_world.h"
#include "libsched/window.h"
#include "tests/support/symbolic_world.h"

namespace lsched {
namespace {

using nlohmann::json;

struct traced_run {
  simulation_report report;
  std::vector<trace_event> events;
};

traced_run traced(const simulation& what, rank ranks = std::numeric_limits<rank>::max()) {
  simulation_record record{.ranks = ranks};
  auto report = simulate_window(what, false, &record);
  EXPECT_TRUE(report) << report.error().text;
  return {*report, trace_of(record, *report, what)};
}

std::vector<program> programs(rank size) {
  return {recursive_doubling_program{size, 1000},
          tree_program{size, 1000},
          tree_program{size, 1000, 2, true},
          dissemination_program{size},
          ring_program{size, 1000},
          gather_program{size, 1000}};
}

std::size_t count_of(const std::vector<trace_event>& events, op_kind kind) {
  return static_cast<std::size_t>(
      std::ranges::count_if(events, [&](const auto& it) { return it.op != k_no_op && it.kind == kind; }));
}

/// How often each arrow begins and ends, by its id.
std::map<std::string, std::pair<int, int>> arrows_of(const std::vector<trace_event>& events) {
  std::map<std::string, std::pair<int, int>> arrows;
  const json all = json::parse(to_trace_json(events));
  for (const json& it : all["traceEvents"]) {
    if (it["ph"] == "s") ++arrows[it["id"]].first;
    if (it["ph"] == "f") ++arrows[it["id"]].second;
  }
  return arrows;
}

TEST(simulated_trace, has_every_message_of_a_program_as_an_arrow_with_two_ends) {
  for (const rank size : {1, 2, 3, 5, 8, 13})
    for (const std::uint64_t most_eager : {10u, 65'535u})
      for (const semantics rules : {semantics::libsched, semantics::loggopsim})
        for (const program& it : programs(size)) {
          simulation what{.what = it, .skew = {.kind = skew_kind::uniform, .scale = 5'000'000}};
          what.where.S = most_eager;
          what.where.rules = rules;
          const auto run = traced(what);
          EXPECT_EQ(count_of(run.events, op_kind::send), run.report.messages);
          EXPECT_EQ(count_of(run.events, op_kind::recv), run.report.messages);
          const auto arrows = arrows_of(run.events);
          EXPECT_EQ(arrows.size(), run.report.messages) << it.index() << " " << size;
          for (const auto& [id, ends] : arrows) EXPECT_EQ(ends, std::pair(1, 1)) << it.index() << " " << size;
        }
}

TEST(simulated_trace, has_signals_too) {
  for (const rank size : {2, 5, 8}) {
    const auto run = traced({.what = recursive_doubling_program{size, 8},
                             .skew = {.kind = skew_kind::linear},
                             .starts = {.policy = activation_policy::solo}});
    EXPECT_EQ(count_of(run.events, op_kind::signal_send), run.report.signals);
    EXPECT_EQ(count_of(run.events, op_kind::signal_recv), run.report.signals + 1);  // and the call
  }
}

TEST(simulated_trace, cpus_do_one_thing_at_a_time_and_end_when_the_report_says) {
  simulation what{.what = recursive_doubling_program{13, 1000},
                  .skew = {.kind = skew_kind::lognormal, .scale = 9'000'000}};
  what.noise = {.kind = noise_kind::exponential, .scale = 1'000'000};
  simulation_record record;
  const auto report = simulate_window(what, false, &record);
  std::vector<picoseconds> until(13);
  for (const simulated_op& it : record.ops) {
    picoseconds& mine = until[static_cast<std::size_t>(it.who)];
    EXPECT_GE(it.begin, mine);
    EXPECT_GT(it.end, it.begin);
    mine = it.end;
  }
  EXPECT_EQ(until, report->finish);
}

TEST(simulated_trace, schedules_and_programs_give_the_same_picture_of_messages) {
  const auto ranks = testing::whole_world(8, [](world place) {
    return generate("allreduce", "recursive_doubling", place, {.count = 250, .what = kernel::sum}, {});
  });
  const simulation what{.what = recursive_doubling_program{8, 1000}};
  simulation_record record;
  const auto report = simulate_schedules(ranks, what, &record);
  const auto written = trace_of(record, *report, what), read = traced(what).events;
  using stay = std::tuple<rank, op_kind, std::uint64_t, std::uint64_t, rank>;
  const auto stays_of = [](const std::vector<trace_event>& events) {
    std::multiset<stay> stays;
    for (const trace_event& it : events)
      if (it.op != k_no_op && is_communication(it.kind))
        stays.emplace(it.who, it.kind, it.begin_ns, it.end_ns, it.peer);
    return stays;
  };
  EXPECT_EQ(stays_of(written), stays_of(read));
}

TEST(simulated_trace, leaves_out_the_ranks_that_were_not_asked_for) {
  const auto run = traced({.what = recursive_doubling_program{16, 8}}, 3);
  EXPECT_TRUE(std::ranges::all_of(run.events, [](const auto& it) { return it.who < 3; }));
  EXPECT_EQ(run.events.size(), 3 * (4 + 4 + 1u));
}

TEST(simulated_trace, remarks_are_seen) {
  const auto run = traced({.what = recursive_doubling_program{2, 8}});
  const json all = json::parse(to_trace_json(run.events, {.remark = "a \"remark\""}));
  EXPECT_EQ(all["otherData"]["remark"], "a \"remark\"");
  EXPECT_TRUE(std::ranges::any_of(all["traceEvents"], [](const json& it) { return it["name"] == "a \"remark\""; }));
}

}  // namespace
}  // namespace lsched
