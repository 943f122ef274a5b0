// Tests of traces. The JSON must be valid, slices (bars in the viewer) must not overlap, and arrows must have two ends.
// Other tests check the events that engines record.
#include "libsched/trace/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "collectives/allreduce/allreduce.h"
#include "libsched/trace/trace_buffer.h"
#include "tests/libsched/allocation_count.h"
#include "tests/support/generators.h"
#include "tests/support/lockstep_world.h"

namespace lsched {
namespace {

using nlohmann::json;
using testing::lockstep_world;

trace_event event(rank who, op_id op, op_kind kind, std::uint64_t begin, std::uint64_t end, rank peer = k_no_rank) {
  return {.begin_ns = begin, .end_ns = end, .round = 1, .who = who, .op = op, .peer = peer, .kind = kind};
}

json picture(const std::vector<trace_event>& events, const trace_context& around = {}) {
  return json::parse(to_trace_json(events, around));
}

std::vector<json> of_phase(const json& all, std::string_view phase) {
  std::vector<json> some;
  for (const json& it : all["traceEvents"])
    if (it["ph"] == phase) some.push_back(it);
  return some;
}

TEST(trace_json, is_one_line_an_event_to_the_byte) {
  EXPECT_EQ(to_trace_json(std::vector{event(2, 7, op_kind::compute, 1500, 2000007)}, {.names = {{0, "sum \"x\"\n"}}}),
            "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"
            "{\"ph\":\"M\",\"pid\":2,\"tid\":4000000,\"name\":\"process_name\",\"args\":{\"name\":\"rank 2\"}},\n"
            "{\"ph\":\"M\",\"pid\":2,\"tid\":4000000,\"name\":\"process_sort_index\",\"args\":{\"sort_index\":2}},\n"
            "{\"ph\":\"M\",\"pid\":2,\"tid\":4000000,\"name\":\"thread_name\",\"args\":{\"name\":\"compute\"}},\n"
            "{\"ph\":\"M\",\"pid\":2,\"tid\":4000000,\"name\":\"thread_sort_index\","
            "\"args\":{\"sort_index\":4000000}},\n"
            "{\"ph\":\"X\",\"pid\":2,\"tid\":4000000,\"ts\":1.500,\"dur\":1998.507,"
            "\"cat\":\"compute\",\"name\":\"compute\","
            "\"args\":{\"round\":1,\"op\":7,\"schedule\":\"sum \\\"x\\\"\\\\x0a\"}}\n"
            "],\"otherData\":{\"lost\":0,\"cut\":0}}\n");
}

TEST(trace_json, of_nothing_is_an_empty_list) {
  const json all = picture({});
  EXPECT_TRUE(all["traceEvents"].empty());
}

TEST(trace_json, escapes_every_byte_of_a_name) {
  std::string name;
  for (int code = 0; code < 256; ++code) name += static_cast<char>(code);
  const json all = picture({event(0, 0, op_kind::nop, 1, 2)}, {.names = {{0, name}}});
  const std::string shown = of_phase(all, "X")[0]["args"]["schedule"];
  EXPECT_EQ(shown.size(), 95u + 4 * 161);
  EXPECT_NE(shown.find(" !\"#"), std::string::npos);
  EXPECT_NE(shown.find("[\\]"), std::string::npos);
  EXPECT_NE(shown.find("\\x00\\x01"), std::string::npos);
}

TEST(trace_json, joins_the_two_ends_of_a_message_with_an_arrow) {
  const json all =
      picture({event(0, 1, op_kind::send, 100, 150, 1), event(1, 4, op_kind::recv, 50, 900, 0),
               event(0, 2, op_kind::signal_send, 100, 100, 1), event(1, 5, op_kind::signal_recv, 10, 300, 0)});
  const auto starts = of_phase(all, "s");
  const auto ends = of_phase(all, "f");
  ASSERT_EQ(starts.size(), 2u);
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_EQ(starts[0]["id"], ends[0]["id"]);
  EXPECT_EQ(starts[1]["id"], ends[1]["id"]);
  EXPECT_NE(starts[0]["id"], starts[1]["id"]) << "signals and payload messages have different edges";
  EXPECT_EQ(starts[0]["ts"], 0.1);
  EXPECT_EQ(ends[0]["ts"], 0.899) << "the arrow must end inside the slice";
  EXPECT_EQ(ends[0]["bp"], "e");
}

TEST(trace_json, gives_rounds_tags_and_schedules_arrows_of_their_own) {
  std::vector<trace_event> sends(4, event(0, 1, op_kind::send, 1, 2, 1));
  sends[1].round = 2;
  sends[2].tag = 1;
  sends[3].schedule = 1;
  std::set<std::string> ids;
  for (const json& it : of_phase(picture(sends), "s")) ids.insert(it["id"]);
  EXPECT_EQ(ids.size(), 4u);
}

TEST(trace_json, draws_no_arrow_for_the_own_call) {
  const json all = picture({event(3, 0, op_kind::signal_recv, 1, 5, 3)});
  EXPECT_EQ(of_phase(all, "X")[0]["name"], "call");
  EXPECT_TRUE(of_phase(all, "f").empty());
}

/// Expects that the slices of a track do not overlap. Also expects that both ends of every arrow lie in a slice.
void expect_tidy(const json& all) {
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> slices;
  for (const json& it : of_phase(all, "X")) {
    const double begin = it["ts"];
    slices[{it["pid"], it["tid"]}].emplace_back(begin, begin + it["dur"].get<double>());
  }
  for (auto& [track, mine] : slices) {
    std::ranges::sort(mine);
    for (std::size_t i = 1; i < mine.size(); ++i)
      EXPECT_LE(mine[i - 1].second, mine[i].first + 1e-6) << track.first << " " << track.second;
  }
  for (const char* phase : {"s", "f"})
    for (const json& it : of_phase(all, phase)) {
      const double at = it["ts"];
      const auto& mine = slices[{it["pid"], it["tid"]}];
      const auto holds = [at](const auto& slice) { return slice.first <= at + 1e-6 && at < slice.second; };
      EXPECT_TRUE(std::ranges::any_of(mine, holds)) << it;
    }
}

TEST(trace_json, puts_overlapping_ops_side_by_side) {
  const json all = picture({event(0, 1, op_kind::recv, 10, 50, 1), event(0, 2, op_kind::recv, 20, 40, 2),
                            event(0, 3, op_kind::recv, 40, 60, 3), event(0, 4, op_kind::recv, 45, 45, 4)});
  expect_tidy(all);
  std::set<int> tracks;
  for (const json& it : of_phase(all, "X")) tracks.insert(it["tid"].get<int>());
  EXPECT_EQ(tracks.size(), 3u);
}

TEST(trace_json, keeps_the_first_events_in_time_and_says_how_many_it_cut) {
  std::vector<trace_event> events;
  for (std::uint64_t i = 0; i < 10; ++i)
    events.push_back(event(static_cast<rank>(i % 3), 1, op_kind::nop, 100 - i, 101 - i));
  const json all = picture(events, {.lost = 5, .most_events = 4});
  EXPECT_EQ(all["otherData"]["cut"], 6);
  EXPECT_EQ(all["otherData"]["lost"], 5);
  const auto slices = of_phase(all, "X");
  EXPECT_EQ(slices.size(), 4u);
  for (const json& it : slices) EXPECT_LE(it["ts"].get<double>(), 0.094);
  ASSERT_EQ(of_phase(all, "i").size(), 1u);
  EXPECT_EQ(of_phase(all, "i")[0]["name"], "trace ends early: 5 events not recorded, 6 not written");
  EXPECT_TRUE(of_phase(picture(events), "i").empty());
}

// --- recording -----------------------------------------------------------------------------------------------

TEST(trace_buffer, joins_beginnings_and_ends) {
  trace_buffer buffer(8);
  buffer.note(event(0, k_no_op, op_kind::nop, 5, 0));
  buffer.note(event(0, 1, op_kind::recv, 10, 0, 1));
  buffer.note(event(0, 2, op_kind::nop, 11, 12));
  buffer.note(event(0, 3, op_kind::signal_recv, 13, 0, 1));
  buffer.note(event(0, 1, op_kind::recv, 0, 20, 1));
  buffer.note(event(0, 9, op_kind::recv, 0, 21, 1));
  const std::vector<trace_event> wanted{event(0, k_no_op, op_kind::nop, 5, 21), event(0, 1, op_kind::recv, 10, 20, 1),
                                        event(0, 2, op_kind::nop, 11, 12)};
  EXPECT_EQ(buffer.events(), wanted) << "the round is still open, the signal was void, and op 9 is unknown";
}

TEST(trace_buffer, stops_when_it_is_full_and_counts_what_it_missed) {
  trace_buffer buffer(2);
  for (std::uint64_t i = 1; i < 6; ++i) buffer.note(event(0, 1, op_kind::nop, i, i + 1));
  EXPECT_EQ(buffer.events().size(), 2u);
  EXPECT_EQ(buffer.context().lost, 3u);
}

struct recorded_world {
  explicit recorded_world(rank size) : ranks(size, 1), data(static_cast<std::size_t>(size), std::vector<float>(64)) {
    for (rank r = 0; r < size; ++r) buffers.push_back(std::make_unique<trace_buffer>(100'000));
  }
  std::vector<instance*> commit() {
    return ranks.commit([&](rank r) {
      auto* mine = reinterpret_cast<std::byte*>(data[static_cast<std::size_t>(r)].data());
      const shape floats{.count = 32, .type = dtype::f32, .what = kernel::sum};
      const binding memory{{mine}, {mine + 32 * sizeof(float)}};
      return commit_request{"sum", allreduce_recursive_doubling({r, ranks.size()}, floats), memory, {}};
    });
  }
  std::vector<trace_event> events() const {
    std::vector<trace_event> all;
    for (const auto& it : buffers) std::ranges::copy(it->events(), std::back_inserter(all));
    return all;
  }
  lockstep_world ranks;
  std::vector<std::vector<float>> data;
  std::vector<std::unique_ptr<trace_buffer>> buffers;
};

TEST(engine_recording, notes_every_op_and_round_once_and_every_arrow_twice) {
  for (const rank size : {1, 2, 3, 5, 6, 7}) {
    recorded_world world(size);
    for (rank r = 0; r < size; ++r) world.ranks.at(r).record(world.buffers[static_cast<std::size_t>(r)].get());
    const auto its = world.commit();
    ASSERT_EQ(its.size(), static_cast<std::size_t>(size));
    for (int round = 0; round < 3; ++round) ASSERT_TRUE(world.ranks.run_round(its));
    std::size_t ops = 0;
    std::size_t messages = 0;
    for (rank r = 0; r < size; ++r) {
      ops += world.ranks.at(r).counters().ops;
      messages += world.ranks.at(r).counters().messages_sent;
    }
    const auto events = world.events();
    EXPECT_EQ(events.size(), ops + static_cast<std::size_t>(3 * size)) << size;
    for (const trace_event& it : events) EXPECT_LE(it.begin_ns, it.end_ns);
    const json all = picture(events, world.buffers[0]->context());
    expect_tidy(all);
    std::set<std::string> starts;
    std::set<std::string> ends;
    for (const json& it : of_phase(all, "s")) starts.insert(it["id"]);
    for (const json& it : of_phase(all, "f")) ends.insert(it["id"]);
    EXPECT_EQ(starts, ends);
    EXPECT_EQ(starts.size(), messages);
    EXPECT_EQ(of_phase(all, "X")[0]["args"]["schedule"], "allreduce/recursive_doubling #0");
    world.ranks.remove(its);
  }
}

TEST(engine_recording, begins_and_ends_whenever_it_is_told_to_and_allocates_nothing) {
  recorded_world world(3);
  const auto its = world.commit();
  ASSERT_EQ(its.size(), 3u);
  ASSERT_TRUE(world.ranks.run_round(its));
  world.ranks.at(1).record(world.buffers[1].get());
  const testing::counting_allocations allocations;
  for (int round = 0; round < 5; ++round) {
    lockstep_world::start(world.ranks.at(0), *its[0]);
    lockstep_world::start(world.ranks.at(1), *its[1]);
    lockstep_world::start(world.ranks.at(2), *its[2]);
    for (bool is_over = false; !is_over;) {
      for (const rank r : {0, 1, 2}) {
        const std::uint64_t before = allocations.count();
        world.ranks.at(r).step();
        EXPECT_TRUE(r != 1 || allocations.count() == before);
      }
      is_over = std::ranges::all_of(its, [](const instance* it) { return it->finished.load() == it->called.load(); });
    }
  }
  world.ranks.at(1).record(nullptr);
  const std::size_t noted = world.buffers[1]->events().size();
  ASSERT_TRUE(world.ranks.run_round(its));
  EXPECT_EQ(world.buffers[1]->events().size(), noted);
  EXPECT_EQ(std::ranges::count(world.buffers[1]->events(), k_no_op, &trace_event::op), 5);
  world.ranks.remove(its);
}

}  // namespace
}  // namespace lsched
