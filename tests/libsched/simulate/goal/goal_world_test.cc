// Tests of the conversion between schedules and GOAL.
#include "bindings/cli/goal/goal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "collectives/requests/sample_requests.h"
#include "collectives/selection.h"
#include "libsched/schedule/builder.h"
#include "tests/support/lockstep_world.h"

namespace lsched {
namespace {

using testing::lockstep_world;

std::vector<schedule_ptr> world_of(std::string_view collective, std::string_view algorithm, rank size,
                                   const shape& data, const activation& starts = {}) {
  std::vector<schedule_ptr> world;
  for (rank r = 0; r < size; ++r) world.push_back(*generate(collective, algorithm, {r, size}, data, starts));
  return world;
}

shape floats(std::uint64_t count) { return {.count = count, .type = dtype::f32, .what = kernel::sum}; }

std::vector<schedule_ptr> partial_world(rank size, const activation& starts) {
  return world_of("partial_allreduce", "recursive_doubling", size, floats(3), starts);
}

std::size_t count_of(const goal& program, goal_kind kind) {
  std::size_t count = 0;
  for (const goal_rank& me : program.ranks)
    count += static_cast<std::size_t>(std::ranges::count(me.ops, kind, &goal_op::kind));
  return count;
}

bool contains(const std::string& text, std::string_view phrase) { return text.find(phrase) != std::string::npos; }

TEST(export_goal, refuses_a_calc_that_takes_too_long_to_be_written) {
  const auto world = world_of("allreduce", "recursive_doubling", 2, floats(10));
  EXPECT_TRUE(export_goal(world, {.ns_per_byte = 2e16}));
  const auto made = export_goal(world, {.ns_per_byte = 1e18});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, status::argument);
  EXPECT_TRUE(contains(made.error().text, "takes longer than 10^18 ns")) << made.error().text;
}

TEST(export_goal, keeps_messages_and_deps_of_an_allreduce_of_two) {
  const auto made = export_goal(world_of("allreduce", "recursive_doubling", 2, floats(10)), {.ns_per_byte = 0.5});
  ASSERT_TRUE(made) << made.error().text;
  const std::string text = to_goal_text(made->program, made->description);
  EXPECT_TRUE(contains(text,
                       "// libsched: allreduce/recursive_doubling, 2 ranks, round 1\n"
                       "// times in ns; computes take 0.5 ns for each byte that they write\n"))
      << text;
  EXPECT_FALSE(contains(text, "scenario")) << text;
  EXPECT_TRUE(contains(text, "send 40b to 1 tag 2\n")) << text;
  EXPECT_TRUE(contains(text, "calc 20\n")) << text;
  EXPECT_EQ(count_of(made->program, goal_kind::send), 2u);
  EXPECT_EQ(count_of(made->program, goal_kind::recv), 2u);
}

TEST(export_goal, has_the_messages_that_the_registry_declares) {
  for (const algorithm& it : algorithms())
    for (const rank size : {1, 2, 3, 5, 6, 7, 8, 13}) {
      const shape data = typical_shape(*it.of, size, 6, dtype::f32, kernel::sum);
      const activation starts{.policy = it.of->activates ? activation_policy::solo : activation_policy::none};
      if (validate(it, {0, size}, data, starts)) continue;
      for (rank caller = 0; caller < (it.of->activates ? size : 1); ++caller) {
        const auto made = export_goal(world_of(it.of->name, it.name, size, data, starts), {.initiator = caller});
        ASSERT_TRUE(made) << made.error().text;
        const cost declared = cost_of_round(it, size, data, starts);
        const std::uint64_t signals = it.of->activates ? declared.signals_of_one : declared.signals;
        EXPECT_EQ(count_of(made->program, goal_kind::send), declared.messages + signals)
            << it.of->name << " " << it.name << " " << size;
        EXPECT_EQ(count_of(made->program, goal_kind::recv), declared.messages + signals);
      }
    }
}

TEST(export_goal, resolves_or_dependencies_for_one_initiator_and_says_so) {
  const auto world = partial_world(5, {.policy = activation_policy::solo});
  const auto made = export_goal(world, {.initiator = 3});
  ASSERT_TRUE(made) << made.error().text;
  EXPECT_TRUE(contains(made->description, "resolved for one scenario: rank 3 alone calls, every rank contributes"))
      << made->description;
  EXPECT_TRUE(contains(made->description, "signals are messages of 1 byte with tags from ")) << made->description;
  for (rank r = 0; r < 5; ++r) {
    // In a solo activation, only one op other than a receive has no predecessor: the call of the initiator.
    const goal_rank& me = made->program.ranks[static_cast<std::size_t>(r)];
    std::vector<bool> has_cause(me.ops.size());
    for (const goal_edge& it : me.edges) has_cause[it.after] = true;
    std::size_t causeless = 0;
    for (std::size_t id = 0; id < me.ops.size(); ++id)
      causeless += !has_cause[id] && me.ops[id].kind != goal_kind::recv;
    EXPECT_EQ(causeless, r == 3 ? 1u : 0u) << r;
  }
  EXPECT_NE(export_goal(world, {.initiator = 2})->program, made->program);
}

TEST(export_goal, lets_the_drawn_rank_call_under_majority_and_everybody_under_full) {
  const auto majority = partial_world(6, {.policy = activation_policy::majority, .seed = 4});
  const auto drawn = export_goal(majority, {.initiator = 0});
  ASSERT_TRUE(drawn) << drawn.error().text;
  EXPECT_EQ(drawn->program, export_goal(majority, {.initiator = 5})->program);
  const auto full = export_goal(partial_world(6, {.policy = activation_policy::full}));
  ASSERT_TRUE(full) << full.error().text;
  EXPECT_TRUE(contains(full->description, "every rank calls")) << full->description;
}

TEST(export_goal, requires_only_the_tokens_that_a_quorum_waited_for) {
  builder b({0, 1}, "quorum");
  const op_id early = b.nop();
  const op_id second = b.nop();
  const op_id late = b.nop({second});
  const op_id judge = b.nop({early, second, late});
  b.set_need(judge, 2);
  const schedule_ptr program = *b.compile();
  const auto made = export_goal(std::span(&program, 1));
  ASSERT_TRUE(made) << made.error().text;
  EXPECT_EQ(made->program.ranks[0].edges.size(), program->dep_count() - 1);
  for (const goal_edge& it : made->program.ranks[0].edges)
    EXPECT_FALSE(program->ops()[it.after].need == 2 && program->ops()[it.before].need == 1) << "the late one";
}

TEST(export_goal, writes_empty_messages_as_one_byte) {
  const auto made = export_goal(world_of("allreduce", "tree", 3, floats(0)));
  ASSERT_TRUE(made) << made.error().text;
  EXPECT_TRUE(contains(made->description, "messages of 0 bytes are written as 1 byte"));
  for (const goal_rank& me : made->program.ranks)
    for (const goal_op& it : me.ops) EXPECT_TRUE(it.kind == goal_kind::calc || it.size == 1);
}

TEST(export_goal, refuses_worlds_that_are_none_and_rounds_that_do_not_end) {
  EXPECT_EQ(export_goal({}).error().code, status::argument);
  auto world = world_of("allreduce", "tree", 3, floats(4));
  EXPECT_EQ(export_goal(world, {.initiator = 3}).error().code, status::argument);
  EXPECT_EQ(export_goal(world, {.ns_per_byte = 0}).error().code, status::argument);
  world[1] = world[2];
  EXPECT_EQ(export_goal(world).error().text,
            "schedule 1 is not for rank 1 of 3: give the schedules of all ranks in rank order");
  builder lonely({1, 3});
  lonely.send(0, 9, region(lonely.input(dtype::u8, 1), 0), 1);
  world[1] = *lonely.compile();
  const auto stray = export_goal(world);
  ASSERT_FALSE(stray);
  EXPECT_EQ(stray.error().code, status::unmatched);
  EXPECT_EQ(stray.error().text, "rank 0 has no receive of tag 9 from rank 1");
  world[1] = *builder({1, 3}).compile();
  const auto stuck = export_goal(world);
  ASSERT_FALSE(stuck);
  EXPECT_EQ(stuck.error().code, status::unmatched);
  EXPECT_EQ(stuck.error().text, "rank 0 waits forever for a message from rank 1");
}

// --- import --------------------------------------------------------------------------------------------------

goal parsed(std::string_view text) {
  auto made = parse_goal_text(text);
  EXPECT_TRUE(made) << made.error().text;
  return made ? *made : goal{};
}

TEST(import_goal, comes_back_as_the_same_program) {
  for (const rank size : {1, 2, 3, 5, 6, 7}) {
    const goal first = export_goal(world_of("allreduce", "recursive_doubling", size, floats(10)))->program;
    const auto world = import_goal(first);
    ASSERT_TRUE(world) << world.error().text;
    const goal second = export_goal(*world)->program;
    for (const goal_kind kind : {goal_kind::send, goal_kind::recv})
      EXPECT_EQ(count_of(first, kind), count_of(second, kind));
    EXPECT_EQ(import_goal(second)->size(), world->size());
  }
}

TEST(import_goal, makes_schedules_that_the_engine_runs) {
  const goal program = parsed(
      "num_ranks 3\nrank 0 {\na: calc 2\nb: send 8b to 1\nc: send 16b to 1\nb requires a\nc irequires b\n}\n"
      "rank 1 {\na: recv 8b from 0\nb: recv 16b from 0\n"
      "c: send 4b to 2 tag 7\nc requires a\nc requires b\nc requires b\n}\n"
      "rank 2 {\nrecv 4b from 1 tag 7\n}\n");
  const auto world = import_goal(program);
  ASSERT_TRUE(world) << world.error().text;
  const std::vector<std::byte> input(64);
  lockstep_world ranks(3, 1);
  const auto its = ranks.commit([&](rank r) {
    const schedule_ptr& mine = (*world)[static_cast<std::size_t>(r)];
    return commit_request{"goal", mine, binding{{input.data()}, {}}, {}};
  });
  ASSERT_EQ(its.size(), 3u);
  EXPECT_TRUE(ranks.run_round(its));
  EXPECT_EQ(ranks.at(0).counters().bytes_sent, 24u);
  EXPECT_EQ(ranks.at(1).counters().bytes_sent, 4u);
  ranks.remove(its);
}

TEST(import_goal, starts_an_op_when_the_one_it_irequires_has_started) {
  const auto world =
      import_goal(parsed("num_ranks 1\nrank 0 {\na: calc 1\nb: calc 2\nc: calc 3\nb requires a\nc irequires b\n}\n"));
  ASSERT_TRUE(world) << world.error().text;
  // c starts after b has started, and b starts after a has ended. In the imported schedule, c waits for a nop that
  // represents the start of b, and the nop waits for a.
  const schedule& program = *world->front();
  const auto copy_of = [&](std::uint64_t bytes) {
    for (op_id id = 0;; ++id)
      if (program.ops()[id].kind == op_kind::compute && program.ops()[id].count == bytes) return id;
  };
  const auto after_a = program.successors(copy_of(10));
  ASSERT_EQ(after_a.size(), 1u);
  EXPECT_EQ(program.ops()[after_a[0]].kind, op_kind::nop);
  std::vector<op_id> wanted{copy_of(20), copy_of(30)};
  std::ranges::sort(wanted);
  EXPECT_TRUE(std::ranges::equal(program.successors(after_a[0]), wanted));
}

TEST(import_goal, refuses_what_is_not_static_or_does_not_pair_up) {
  const auto complaint = [](std::string_view ops_of_0, std::string_view ops_of_1) {
    const std::string text =
        "num_ranks 2\nrank 0 {\n" + std::string(ops_of_0) + "\n}\nrank 1 {\n" + std::string(ops_of_1) + "\n}\n";
    const auto made = import_goal(parsed(text));
    return made ? std::string() : made.error().text;
  };
  EXPECT_EQ(complaint("recv 1b from -1", "send 1b to 0"),
            "rank 0, op 0 receives from any rank: the matching op would be known only at run time, so name the peer "
            "and the tag");
  EXPECT_EQ(complaint("calc 1\nrecv 1b from 1 tag -1", "send 1b to 0"),
            "rank 0, op 1 has any tag: the matching op would be known only at run time, so name the peer and the tag");
  EXPECT_EQ(complaint("send 1b to 1\nsend 1b to 1", "recv 1b from 0"),
            "rank 0, op 1 sends 1 byte, which no rank receives");
  EXPECT_EQ(complaint("send 1b to 1", "recv 1b from 0\nrecv 1b from 0 tag 1"),
            "rank 1, op 1 receives 1 byte, which no rank sends");
  EXPECT_EQ(complaint("send 2b to 1", "recv 1b from 0"),
            "rank 0, op 0 sends 2 bytes, but the matching receive is shorter: rank 1, op 0 receives 1 byte");
  EXPECT_TRUE(contains(complaint("a: calc 1\nb: calc 1\na requires b\nb requires a", ""), "rank 0: "));
  EXPECT_TRUE(contains(complaint("recv 18446744073709551615b from 1", "send 18446744073709551615b to 0"), "2^48-1"));
  EXPECT_TRUE(contains(complaint("send 1b to 0\nrecv 1b from 0", ""), "rank 0: "));
}

}  // namespace
}  // namespace lsched
