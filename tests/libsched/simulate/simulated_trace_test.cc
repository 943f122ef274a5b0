// Tests of traces of simulated runs. Every message must be an arrow with two ends.
#include "libsched/simulate/simulation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/support/simulated_world.h"

namespace lsched {
namespace {

using nlohmann::json;

struct traced_run {
  simulation_report report;
  std::vector<trace_event> events;
};

traced_run traced(std::span<const schedule_ptr> world, const simulation& what = {},
                  rank ranks = std::numeric_limits<rank>::max()) {
  simulation_record record{.ranks = ranks};
  const auto report = testing::simulated(world, what, &record);
  return {report, trace_of(record, report, what)};
}

std::size_t count_of(const std::vector<trace_event>& events, op_kind kind) {
  return static_cast<std::size_t>(
      std::ranges::count_if(events, [&](const auto& it) { return it.op != k_no_op && it.kind == kind; }));
}

/// Returns, for the id of each arrow, how many times the arrow begins and how many times it ends.
std::map<std::string, std::pair<int, int>> arrows_of(const std::vector<trace_event>& events) {
  std::map<std::string, std::pair<int, int>> arrows;
  const json all = json::parse(to_trace_json(events));
  for (const json& it : all["traceEvents"]) {
    if (it["ph"] == "s") ++arrows[it["id"]].first;
    if (it["ph"] == "f") ++arrows[it["id"]].second;
  }
  return arrows;
}

TEST(simulated_trace, has_every_message_as_an_arrow_with_two_ends) {
  for (const rank size : {1, 2, 3, 5, 8, 13})
    for (const std::uint64_t most_eager : {10u, 65'535u})
      for (const auto& [collective, algorithm] : {std::pair("allreduce", "recursive_doubling"),
                                                  {"allreduce", "tree"},
                                                  {"allreduce", "ring"},
                                                  {"reduce", "binomial"},
                                                  {"gather", "flat"}}) {
        simulation what{.skew = {.kind = skew_kind::lognormal, .scale = 5'000'000}};
        what.where.S = most_eager;
        const auto run = traced(testing::collective_world(size, collective, algorithm, 1000), what);
        EXPECT_EQ(count_of(run.events, op_kind::send), run.report.messages);
        EXPECT_EQ(count_of(run.events, op_kind::recv), run.report.messages);
        const auto arrows = arrows_of(run.events);
        EXPECT_EQ(arrows.size(), run.report.messages) << algorithm << " " << size;
        for (const auto& [id, ends] : arrows) EXPECT_EQ(ends, std::pair(1, 1)) << algorithm << " " << size;
      }
}

TEST(simulated_trace, has_signals_too) {
  for (const rank size : {2, 5, 8}) {
    const auto run = traced(testing::doubling_world(size, 8, {.policy = activation_policy::solo}),
                            {.skew = {.kind = skew_kind::linear}});
    EXPECT_EQ(count_of(run.events, op_kind::signal_send), run.report.signals);
    EXPECT_EQ(count_of(run.events, op_kind::signal_recv), run.report.signals + 1);  // the call is a signal_recv, too
  }
}

TEST(simulated_trace, cpus_do_one_thing_at_a_time_and_end_when_the_report_says) {
  simulation what{.skew = {.kind = skew_kind::lognormal, .scale = 9'000'000}, .noise = {.mean = 1'000'000}};
  simulation_record record;
  what.where.compute = 1000;
  const auto report = testing::simulated(testing::doubling_world(13, 1000), what, &record);
  std::vector<picoseconds> until(13);
  for (const simulated_op& it : record.ops) {
    picoseconds& mine = until[static_cast<std::size_t>(it.who)];
    EXPECT_GE(it.begin, mine);
    EXPECT_TRUE(it.end > it.begin || it.kind == op_kind::nop);
    mine = it.end;
  }
  EXPECT_EQ(until, report.finish);
}

TEST(simulated_trace, leaves_out_the_ranks_that_were_not_asked_for) {
  const auto run = traced(testing::doubling_world(16, 8), {}, 3);
  EXPECT_TRUE(std::ranges::all_of(run.events, [](const auto& it) { return it.who < 3; }));
  EXPECT_EQ(count_of(run.events, op_kind::send), 3 * 4u);
  EXPECT_EQ(count_of(run.events, op_kind::recv), 3 * 4u);
}

TEST(simulated_trace, notes_are_seen) {
  const auto run = traced(testing::doubling_world(2, 8));
  const json all = json::parse(to_trace_json(run.events, {.note = "a \"note\""}));
  EXPECT_EQ(all["otherData"]["note"], "a \"note\"");
  EXPECT_TRUE(std::ranges::any_of(all["traceEvents"], [](const json& it) { return it["name"] == "a \"note\""; }));
}

}  // namespace
}  // namespace lsched
