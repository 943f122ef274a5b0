#include "tests/verify_oracle/interleavings.h"
#include "collectives/requests/sample_requests.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "collectives/registry.h"
#include "collectives/rooted/rooted.h"
#include "libsched/schedule/builder.h"
#include "tests/support/list_gather.h"
#include "tests/verify_oracle/mutant.h"

namespace lsched::testing {
namespace {

constexpr std::uint64_t k_two = 2;

/// Returns a world of two ranks. `write` adds the ops of each rank.
std::vector<schedule_ptr> pair_of(const std::function<void(builder&, rank other)>& write) {
  std::vector<schedule_ptr> world;
  for (rank self = 0; self < 2; ++self) {
    builder to({self, 2}, "pair");
    write(to, 1 - self);
    world.push_back(*to.compile());
  }
  return world;
}

/// Returns a world in which each of two ranks gets the other rank's input. If `after_send` is set, the receive of a
/// rank waits for its send.
std::vector<schedule_ptr> swapped(bool after_send) {
  return pair_of([&](builder& to, rank other) {
    const buffer_id input = to.input(dtype::f32, 2), output = to.output(dtype::f32, 2);
    const op_id sent = to.send(other, 0, {input, 0}, k_two);
    const op_id got = to.recv(other, 0, {output, 0}, k_two);
    if (after_send) to.dep(sent, got);
    to.declare_synchronising();
  });
}

postcondition others_input() {
  postcondition promise;
  for (rank holder = 0; holder < 2; ++holder)
    promise.ranges.push_back({.holder = holder, .end = 2, .what = promised_content::moved, .source = 1 - holder});
  return promise;
}

interleaving_verdict play_changed(std::vector<schedule_ptr> world, const postcondition& promise,
                                  const std::function<void(draft&)>& change, interleaving_options options = {}) {
  draft changed = draft_of(*world[0]);
  change(changed);
  world[0] = schedule_of(std::move(changed));
  return play(world, promise, options);
}

TEST(interleavings, a_good_world_holds) {
  const auto verdict = play(swapped(false), others_input());
  EXPECT_EQ(verdict.what, conclusion::holds) << verdict.why;
  EXPECT_GT(verdict.states, 0u);
}

TEST(interleavings, sends_that_wait_for_each_other_fail) {
  const auto verdict = play(swapped(true), others_input());
  EXPECT_EQ(verdict.what, conclusion::fails);
  EXPECT_EQ(verdict.why, "rank 0, op 0 (send, peer 1, tag 0) waits forever");
}

TEST(interleavings, a_wrong_result_fails) {
  postcondition own = others_input();
  for (promised_range& it : own.ranges) it.source = it.holder;
  EXPECT_EQ(play(swapped(false), own).why, "rank 0 holds rank 0's contribution 0 times in element 0");
}

TEST(interleavings, a_hazard_fails_in_some_order) {
  const auto in_place = play(swapped(false), others_input(), {.in_place = true});
  EXPECT_EQ(in_place.what, conclusion::fails);
  EXPECT_NE(in_place.why.find("uses memory that"), std::string::npos) << in_place.why;
}

TEST(interleavings, reading_what_nothing_has_written_fails) {
  const auto world = pair_of([](builder& to, rank) {
    const buffer_id empty = to.scratch(dtype::f32, 2), output = to.output(dtype::f32, 2);
    to.copy({empty, 0}, {output, 0}, k_two);
  });
  EXPECT_EQ(play(world, {}).why, "rank 0, op 0 (compute) reads what nothing has written");
}

TEST(interleavings, a_round_that_ends_before_others_have_entered_fails) {
  const auto world = pair_of([](builder& to, rank other) {
    const op_id sent = to.signal_send(other, 0);
    to.signal_recv(other, 0);
    to.set_exit(sent);
    to.declare_synchronising();
  });
  const std::string why = play(world, {}).why;
  EXPECT_NE(why.find("'s round ends when only 1 of 2 ranks have entered"), std::string::npos) << why;
}

TEST(interleavings, a_round_that_ends_without_a_payload_fails) {
  const auto verdict = play_changed(swapped(false), others_input(), [](draft& it) {
    it.deps = {{0, 1}, {0, it.head.exit}};
    it.head.ops[1].need = 2;
    it.head.ops[it.head.exit].need = 1;
  });
  EXPECT_EQ(verdict.why, "rank 0, op 1 (recv, peer 1, tag 0) has not fired when the round ends");
}

TEST(interleavings, a_partial_round_that_starts_by_itself_or_merges_otherwise_fails) {
  const algorithm& what = *find("partial_allreduce", "tree");
  const shape data{.count = 2, .type = dtype::f32, .what = kernel::sum};
  const auto world = *generate_world(what, 2, data, {activation_policy::solo, 1});
  const postcondition promise = promise_of(what, 2, data, {.policy = activation_policy::solo});
  EXPECT_EQ(play(world, promise).what, conclusion::holds);
  const auto find_first = [&](op_kind kind) {
    return static_cast<op_id>(std::ranges::find(world[0]->ops(), kind, &op::kind) - world[0]->ops().begin());
  };
  const op_id told = find_first(op_kind::signal_send), captured = find_first(op_kind::capture);
  const std::string early = play_changed(world, promise, [&](draft& it) {
                              std::erase_if(it.deps, [&](const auto& dep) { return dep.second == told; });
                              it.head.ops[told].need = 0;
                            }).why;
  EXPECT_NE(early.find("(signal_send, peer 1, tag 0) fires although too few ranks call"), std::string::npos) << early;
  const std::string merged =
      play_changed(world, promise, [&](draft& it) { it.head.ops[captured].what = kernel::max; }).why;
  EXPECT_NE(merged.find("(capture) merges by another kernel than promised"), std::string::npos) << merged;
}

TEST(interleavings, a_round_that_waits_for_everybody_holds) {
  const algorithm& what = *find("partial_allreduce", "tree");
  const shape data{.count = 2, .type = dtype::f32, .what = kernel::sum};
  for (const char* words : {"solo+every(3)", "deadline(1000)", "deadline(1000)+every(3)"}) {
    const activation starts = *read_activation(words);
    const auto world = *generate_world(what, 2, data, starts);
    const postcondition promise = promise_of(what, 2, data, starts);
    const auto verdict = play(world, promise);
    EXPECT_EQ(verdict.what, conclusion::holds) << words << ": " << verdict.why;
    const auto is_own_call = [](const op& it) {
      return it.kind == op_kind::signal_recv && it.tag == k_full_call_tag && it.peer == 0;
    };
    const auto call = std::ranges::find_if(world[0]->ops(), is_own_call) - world[0]->ops().begin();
    const std::string without = play_changed(world, promise, [&](draft& it) {
                                  std::erase_if(it.deps, [&](const auto& dep) { return dep.first == op_id(call); });
                                }).why;
    EXPECT_NE(without.find("never fires"), std::string::npos) << words << ": " << without;
  }
}

/// Each dep of the ops that count calls is necessary in at least one of the scenes.
TEST(interleavings, a_round_that_waits_for_a_grace_holds) {
  const algorithm& what = *find("partial_allreduce", "tree");
  const shape data{.count = 2, .type = dtype::f32, .what = kernel::sum};
  for (const char* words : {"quorum(1)+grace(5)", "quorum(2)+grace(5)", "quorum(1)+grace(5)+every(3)"}) {
    const activation starts = *read_activation(words);
    const auto world = *generate_world(what, 3, data, starts);
    const postcondition promise = promise_of(what, 3, data, starts);
    const auto verdict = play(world, promise);
    EXPECT_EQ(verdict.what, conclusion::holds) << words << ": " << verdict.why;
    const schedule& counter = *world[k_coordinator];
    std::size_t dropped = 0;
    for (op_id id = 0; counter.ops()[id].kind != op_kind::capture; ++id)
      for (const op_id after : counter.successors(id)) {
        if (counter.ops()[after].kind != op_kind::nop) continue;
        ++dropped;
        const auto without =
            play_changed(world, promise, [&](draft& it) { std::erase(it.deps, std::pair(id, after)); });
        EXPECT_EQ(without.what, conclusion::fails) << words << ": " << id << " -> " << after;
      }
    EXPECT_EQ(dropped, 11u);  // three deps of n_K, six of n_all, and two of the op that starts the round
  }
}

TEST(interleavings, lists_that_have_items_are_not_skipped) {
  const auto verdict = play(list_gather_world(2, {.skips_empty = true}), all_lists(2));
  EXPECT_EQ(verdict.what, conclusion::holds) << verdict.why;
}

TEST(interleavings, what_cannot_be_played_fails_with_its_reason) {
  const auto play_with = [&](const std::function<void(op&)>& change) {
    return play_changed(swapped(false), others_input(), [&](draft& it) { change(it.head.ops[0]); }).why;
  };
  EXPECT_EQ(play_with([](op& it) { it.a = {0, 1}; }), "rank 0, op 0 (send, peer 1, tag 0) leaves a buffer");
  EXPECT_EQ(play_with([](op& it) { it.peer = 2; }), "rank 0, op 0 (send, peer 2, tag 0) has no such peer");
  EXPECT_EQ(play_with([](op& it) { it.tag = 9; }), "rank 1, op 1 (recv, peer 0, tag 0) has no matching op");
  EXPECT_EQ(play_with([](op& it) { it.count = 1; }), "rank 1, op 1 (recv, peer 0, tag 0) does not match the send");
}

TEST(interleavings, an_op_does_in_its_rounds_what_it_does_without_a_guard) {
  const auto world_with = [](const guard& when) {
    return pair_of([&](builder& to, rank other) {
      const buffer_id input = to.input(dtype::f32, 2), output = to.output(dtype::f32, 2);
      to.set_guard(to.send(other, 0, {input, 0}, k_two), when);
      to.set_guard(to.recv(other, 0, {output, 0}, k_two), when);
      add_barrier(to, k_no_op);
      to.declare_synchronising();
    });
  };
  const auto always = play(world_with({.every = 1}), others_input());
  EXPECT_EQ(always.what, conclusion::holds) << always.why;
  EXPECT_EQ(play(world_with({.every = 2}), others_input()).why, "rank 0 holds nothing in element 0");
}

TEST(interleavings, bounds_are_no_conclusion) {
  EXPECT_EQ(play(swapped(false), others_input(), {.is_reduced = false, .most_states = 3}).what, conclusion::undecided);
  const auto rare = pair_of([](builder& to, rank) {
    to.set_guard(to.copy({to.input(dtype::f32, 1), 0}, {to.output(dtype::f32, 1), 0}, 1), {.every = 1000});
    add_barrier(to, k_no_op);
    to.declare_synchronising();
  });
  EXPECT_EQ(play(rare, {}).what, conclusion::undecided);
}

struct request {
  const algorithm* what;
  activation starts;
  bool in_place;
};

std::vector<request> all_requests() {
  std::vector<request> all;
  for (const algorithm& it : algorithms()) {
    if (it.of->activates)
      for (const char* words : {"full", "solo"}) all.push_back({&it, *read_activation(words), false});
    else
      for (const bool in_place : {false, true})
        if (!in_place || (it.of->moves_data && it.needs.in_place)) all.push_back({&it, {}, in_place});
  }
  // Each rank has two call ops, which may fire in either order. This makes many orders, so the test includes only one
  // such algorithm.
  all.push_back({find("partial_allreduce", "tree"), *read_activation("deadline(1000)"), false});
  return all;
}

/// Expects that the check with reduced orders and the check of all orders give the same result, for correct worlds and
/// for mutants.
void expect_same_conclusions(rank size, std::size_t step) {
  for (const request& it : all_requests()) {
    shape data = typical_shape(*it.what->of, size, 2, dtype::f32, kernel::sum);
    data.in_place = it.in_place;
    std::vector<schedule_ptr> world;
    for (rank self = 0; self < size; ++self) world.push_back(*it.what->generate({self, size}, data, it.starts));
    const postcondition promise = promise_of(*it.what, size, data, it.starts);
    const aliasing in_place = aliasing_of(*it.what->of, size, data);
    const mutant_list list(world);
    for (std::size_t k = 0; k < list.size(); k += step) {
      const auto mutated = list.world(k);
      const auto some = play(mutated, promise, {.in_place = in_place});
      const auto every = play(mutated, promise, {.in_place = in_place, .is_reduced = false, .most_states = 2'000'000});
      EXPECT_EQ(some.what, every.what) << it.what->of->name << " " << it.what->name << " " << k << " " << list.name(k)
                                       << ": " << some.why << " / " << every.why;
    }
  }
}

TEST(interleavings, fewer_orders_lead_to_the_same_conclusions) { expect_same_conclusions(2, 10); }

TEST(interleavings, soak_fewer_orders_lead_to_the_same_conclusions) {
  expect_same_conclusions(2, 1);
  expect_same_conclusions(3, 31);
}

}  // namespace
}  // namespace lsched::testing
