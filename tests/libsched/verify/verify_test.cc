// Tests of verify(). Each property must fail on a planted fault, and the finding must describe the fault.
#include "libsched/verify/verify.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>

#include "collectives/activation/activation.h"
#include "collectives/registry.h"
#include "collectives/requests/sample_requests.h"
#include "collectives/rooted/rooted.h"
#include "libsched/schedule/builder.h"
#include "libsched/verify/world_key.h"
#include "tests/support/list_gather.h"
#include "tests/support/symbolic_world.h"
#include "tests/verify_oracle/mutant.h"

namespace lsched {
namespace {

using testing::all_lists;
using testing::k_list_room;
using testing::list_gather;
using testing::list_gather_world;
using testing::whole_world;
using testing::with_op;
using testing::without_dep;

constexpr std::uint64_t k_count = 6;
constexpr std::uint64_t k_all = k_count;

using rank_writer = std::function<void(builder&)>;

std::vector<schedule_ptr> write_world(rank size, const rank_writer& write) {
  return whole_world(size, [&](world place) {
    builder to(place);
    write(to);
    return to.compile();
  });
}

std::vector<schedule_ptr> make_world(std::string_view collective, std::string_view name, rank size,
                                     bool in_place = false, activation_policy policy = activation_policy::none) {
  const shape data = collective == "barrier"
                         ? shape{}
                         : shape{.count = k_count, .type = dtype::f32, .what = kernel::sum, .in_place = in_place};
  return whole_world(
      size, [&](world place) { return find(collective, name)->generate(place, data, {.policy = policy, .seed = 1}); });
}

postcondition sum_of_all(rank size) { return reduced_everywhere(size, k_count, kernel::sum, true); }

/// Returns all findings in one text, one line each.
std::string text_of(const verification& answer) {
  std::string text;
  for (const finding& it : answer.findings) text.append(name_of(it.what)).append(": ").append(it.text).append("\n");
  return text;
}

void expect_finding(const verification& answer, property what, std::string_view words) {
  for (const finding& it : answer.findings)
    if (it.what == what && it.text.find(words) != std::string::npos) return;
  ADD_FAILURE() << "no finding of " << name_of(what) << " with \"" << words << "\" in:\n" << text_of(answer);
}

op_id find_op(const schedule& in, op_kind kind, std::size_t which = 0) {
  for (op_id id = 0; id < in.ops().size(); ++id)
    if (in.ops()[id].kind == kind && which-- == 0) return id;
  return k_no_op;
}

/// Ranks 0 and 1 swap their inputs. `add_deps` may add deps to the send and the receive.
void swap(builder& to, const std::function<void(builder&, op_id sent, op_id got)>& add_deps) {
  const rank other = 1 - to.place().self;
  const buffer_id in = to.input(dtype::i32, k_count);
  const buffer_id out = to.output(dtype::i32, k_count);
  const op_id sent = to.send(other, 0, {in, 0}, k_all);
  const op_id got = to.recv(other, 0, {out, 0}, k_all);
  add_deps(to, sent, got);
}

postcondition swapped() {
  postcondition promise;
  for (const rank r : {0, 1})
    promise.ranges.push_back({.holder = r, .end = k_count, .what = promised_content::moved, .source = 1 - r});
  return promise;
}

// --- proofs ------------------------------------------------------------------------------------------------

TEST(verify, proves_what_is_right) {
  for (const rank size : {1, 2, 3, 5, 6, 7, 8}) {
    for (const std::string_view name : {"recursive_doubling", "tree"})
      for (const bool in_place : {false, true}) {
        const auto answer =
            verify(make_world("allreduce", name, size, in_place), sum_of_all(size), {.in_place = in_place});
        EXPECT_TRUE(answer.holds()) << name << " " << size << "\n" << text_of(answer);
        EXPECT_TRUE(answer.is_synchronising && answer.is_eager_safe);
      }
    EXPECT_TRUE(verify(make_world("barrier", "dissemination", size), {}).is_synchronising);
  }
}

TEST(verify, holds_what_is_divided_for_nothing_else) {
  const auto divided = [](std::uint32_t divisor) {
    return write_world(1, [&](builder& to) {
      const buffer_id in = to.input(dtype::f32, k_count), out = to.output(dtype::f32, k_count);
      to.divide({in, 0}, {out, 0}, k_all, divisor);
    });
  };
  const postcondition moved{.ranges = {{.end = k_count, .what = promised_content::moved, .source = 0}}};
  expect_finding(verify(divided(2), moved), property::contents, "is divided, but must be an unchanged copy");
  expect_finding(verify(divided(2), sum_of_all(1)), property::contents, "combined by another kernel than sum");
  postcondition mean = sum_of_all(1);
  mean.ranges[0].tree = divided_tree(leaf_tree(0, 0), 2);
  expect_finding(verify(divided(2), mean), property::contents, "combined by another kernel than sum");
  mean.ranges[0].has_means = true;
  EXPECT_TRUE(verify(divided(2), mean).holds()) << text_of(verify(divided(2), mean));
  expect_finding(verify(divided(3), mean), property::expression, "another tree");
}

TEST(verify, bounds_unexpected_messages) {
  const auto answer = verify(make_world("allreduce", "recursive_doubling", 8), sum_of_all(8));
  for (const unexpected_bound& it : answer.unexpected) {
    EXPECT_EQ(it.messages, 3u);  // one from each of the log2 P partners
    EXPECT_EQ(it.bytes, 3 * k_count * sizeof(float));
  }
  const auto tree = verify(make_world("allreduce", "tree", 3), sum_of_all(3));
  EXPECT_EQ(tree.unexpected[0].messages, 2u);  // the messages of both children may arrive early
  EXPECT_EQ(tree.unexpected[1].messages, 0u);  // the result arrives only after this rank has sent its message
}

TEST(verify, counts_what_a_round_takes) {
  const algorithm& what = *find("partial_allreduce", "tree");
  const shape data{.count = k_count, .type = dtype::f32, .what = kernel::sum};
  const auto answer = verify(make_world("partial_allreduce", "tree", 7, false, activation_policy::solo),
                             promise_of(what, 7, data, {.policy = activation_policy::solo}));
  EXPECT_TRUE(answer.holds()) << text_of(answer);
  cost declared = cost_of_round(what, 7, data, {.policy = activation_policy::solo});
  EXPECT_LE(answer.round_cost.hops, std::exchange(declared.hops, answer.round_cost.hops));
  declared.hops_are_bound = false;
  EXPECT_EQ(answer.round_cost, declared);
}

// --- form and matching -------------------------------------------------------------------------------------

TEST(verify, notices_a_region_outside_its_buffer) {
  auto world = make_world("allreduce", "recursive_doubling", 2);
  world[1] = with_op(*world[1], find_op(*world[1], op_kind::compute), [](op& it) { it.c = region(it.c.buffer(), 1); });
  expect_finding(verify(world, sum_of_all(2)), property::form,
                 "rank 1 op 2 (compute sum) is not valid: region c, 6 elements at b1[1]");
}

TEST(verify, notices_a_tag_used_twice) {
  auto world = make_world("allreduce", "recursive_doubling", 8);
  world[2] = with_op(*world[2], find_op(*world[2], op_kind::recv, 1), [&](op& it) {
    const op& first = world[2]->ops()[find_op(*world[2], op_kind::recv)];
    it.tag = first.tag;
    it.peer = first.peer;
  });
  expect_finding(verify(world, sum_of_all(8)), property::form, "has tag 2, as does op");
}

TEST(verify, notices_more_tokens_needed_than_there_are_deps) {
  auto world = make_world("barrier", "dissemination", 3);
  world[0] = with_op(*world[0], world[0]->exit(), [](op& it) { ++it.need; });
  expect_finding(verify(world, {}), property::form, "needs 3 tokens but has 2 deps");
}

TEST(verify, notices_a_rank_that_is_another) {
  auto world = make_world("barrier", "dissemination", 3);
  std::swap(world[0], world[1]);
  expect_finding(verify(world, {}), property::form, "rank 0 has the schedule of rank 1 of 3");
}

TEST(verify, notices_a_capture_that_nobody_offers_to) {
  auto world = make_world("partial_allreduce", "tree", 3, false, activation_policy::solo);
  for (schedule_ptr& mine : world) {
    draft plain = draft_of(*mine);
    plain.head.starts = {};
    mine = schedule_of(std::move(plain));
  }
  expect_finding(verify(world, sum_of_all(3)), property::form, "only a partial schedule can have a capture");
}

/// Returns the schedule of one of two ranks that exchange their contributions.
schedule_ptr partial_gather(rank self, bool in_halves, bool is_synchronising) {
  builder to({self, 2});
  const std::uint64_t one = 1;
  const buffer_id in = to.input(dtype::i64, 1);
  const buffer_id out = to.output(dtype::i64, in_halves ? 2 : 1);
  const fragment awake = add_activation(to, {.policy = activation_policy::solo}, kernel::sum, in, one);
  const op_id mine = to.copy({in, 0}, {out, 0}, one, {awake.exit});
  const region rest = in_halves ? region(out, 1) : region(to.scratch(dtype::i64, 1), 0);
  const op_id given = to.send(1 - self, 0, {in, 0}, one, {awake.exit});
  to.set_exit(to.nop({mine, given, to.recv(1 - self, 0, rest, one, {awake.exit})}));
  to.set_activation({activation_policy::solo});
  if (is_synchronising) to.declare_synchronising();
  return *to.compile();
}

TEST(verify, notices_a_partial_schedule_that_the_engine_cannot_run) {
  const auto of = [](bool in_halves, bool is_synchronising) {
    const std::vector<schedule_ptr> all{partial_gather(0, in_halves, is_synchronising),
                                        partial_gather(1, in_halves, is_synchronising)};
    return verify(all, {});
  };
  EXPECT_TRUE(of(false, true).holds()) << text_of(of(false, true));
  EXPECT_TRUE(of(true, true).holds()) << text_of(of(true, true));
  expect_finding(of(false, false), property::form, "may be woken by other ranks, but is not declared synchronising");
  auto world = make_world("partial_allreduce", "tree", 2, false, activation_policy::solo);
  world[0] = with_op(*world[0], find_op(*world[0], op_kind::compute), [](op& it) {
    it.kind = op_kind::capture;
    it.a = it.b = {};
  });
  expect_finding(
      verify(world, {}), property::form,
      "rank 0 is partial, but does not have exactly the calls of its activation, and one capture, input and");
}

/// On each of two ranks, a buffer contains both contributions side by side. If `reads_as_one` is set, one op copies
/// both contributions.
TEST(verify, notices_that_a_partial_schedule_reads_as_one_what_is_not_null_as_one) {
  const auto gather = [](rank self, bool reads_as_one) {
    builder to({self, 2});
    const std::uint64_t one = 1;
    const buffer_id in = to.input(dtype::i64, 1);
    const buffer_id both = to.scratch(dtype::i64, 2);
    const buffer_id out = to.output(dtype::i64, 2);
    const fragment awake = add_activation(to, {.policy = activation_policy::solo}, kernel::sum, in, one);
    const op_id mine = to.copy({in, 0}, {both, 0}, one, {awake.exit});
    const op_id given = to.send(1 - self, 0, {in, 0}, one, {awake.exit});
    const op_id got = to.recv(1 - self, 0, {both, 1}, one, {awake.exit});
    op_id last = k_no_op;
    if (reads_as_one) {
      last = to.copy({both, 0}, {out, 0}, 2, {mine, got});
    } else {
      last = to.nop({to.copy({both, 0}, {out, 0}, one, {mine}), to.copy({both, 1}, {out, 1}, one, {got})});
    }
    to.set_exit(to.nop({last, given}));
    to.set_activation({activation_policy::solo});
    to.declare_synchronising();
    return *to.compile();
  };
  const std::vector<schedule_ptr> apart{gather(0, false), gather(1, false)};
  EXPECT_TRUE(verify(apart, {}).holds()) << text_of(verify(apart, {}));
  const std::vector<schedule_ptr> as_one{gather(0, true), gather(1, true)};
  expect_finding(verify(as_one, {}), property::contents,
                 "reads elements [0, 2) of buffer 1 as one value, but the elements from 1 on contain the contributions "
                 "of other ranks");
}

TEST(verify, notices_what_is_unmatched) {
  auto world = make_world("allreduce", "recursive_doubling", 4);
  world[3] = with_op(*world[3], find_op(*world[3], op_kind::send), [](op& it) { it.tag = 9; });
  const auto answer = verify(world, sum_of_all(4));
  expect_finding(answer, property::matching, "(send to 2), tag 9, has no matching receive");
  expect_finding(answer, property::matching, "(recv from 3), tag 2, has no matching send");
}

TEST(verify, notices_a_lost_signal_edge) {
  auto world = make_world("barrier", "dissemination", 3);
  world[0] = with_op(*world[0], find_op(*world[0], op_kind::signal_send), [](op& it) { it = op{.need = it.need}; });
  expect_finding(verify(world, {}), property::matching, "(signal_recv from 0), tag 1, has no matching send");
}

TEST(verify, notices_another_extent_or_type) {
  auto world = make_world("allreduce", "tree", 2);
  world[1] = with_op(*world[1], find_op(*world[1], op_kind::send), [](op& it) { it.count = k_count - 1; });
  expect_finding(verify(world, sum_of_all(2)), property::matching, "carries 5 x f32, but rank 0 op");
}

// --- progress ----------------------------------------------------------------------------------------------

TEST(verify, notices_a_deadlock_that_only_buffers_prevent) {
  const auto world =
      write_world(2, [](builder& to) { swap(to, [](builder& it, op_id sent, op_id got) { it.dep(sent, got); }); });
  const auto answer = verify(world, swapped());
  EXPECT_TRUE(answer.is_eager_safe);
  expect_finding(
      answer, property::progress,
      "rank 0 op 0 (send to 1) waits for rank 1 op 1 (recv from 0), which waits for rank 1 op 0 (send to "
      "0), which waits for rank 0 op 1 (recv from 1), which waits for rank 0 op 0 (send to 1): a cycle; with "
      "enough buffers");
}

TEST(verify, notices_a_deadlock_that_nothing_prevents) {
  const auto world =
      write_world(2, [](builder& to) { swap(to, [](builder& it, op_id sent, op_id got) { it.dep(got, sent); }); });
  const auto answer = verify(world, swapped());
  EXPECT_FALSE(answer.is_eager_safe);
  expect_finding(answer, property::progress, ": a cycle");
}

/// Two ranks exchange and combine their inputs. If `waits` is set, a rank combines the inputs only after its own send
/// has completed.
void exchange_holding(builder& to, bool waits) {
  const rank other = 1 - to.place().self;
  const buffer_id in = to.input(dtype::f32, k_count);
  const buffer_id out = to.output(dtype::f32, k_count);
  const buffer_id landing = to.scratch(dtype::f32, k_count);
  const op_id sent = to.send(other, 0, {in, 0}, k_all);
  const op_id got = to.recv(other, 0, {landing, 0}, k_all);
  const buffer_id lower = other == 0 ? landing : in;
  const buffer_id higher = other == 0 ? in : landing;
  const op_id sum = to.reduce(kernel::sum, {lower, 0}, {higher, 0}, {out, 0}, k_all, {got});
  if (waits) to.dep(sent, sum);
  to.declare_holding();
}

TEST(verify, notices_a_circle_of_held_payloads) {
  const auto good = write_world(2, [](builder& to) { exchange_holding(to, false); });
  EXPECT_TRUE(verify(good, sum_of_all(2)).holds());
  const auto bad = write_world(2, [](builder& to) { exchange_holding(to, true); });
  expect_finding(verify(bad, sum_of_all(2)), property::holding,
                 "the round would complete if senders did not keep payloads");
}

TEST(verify, notices_what_the_end_of_a_round_may_leave_out) {
  const auto world = write_world(2, [](builder& to) {
    swap(to, [](builder& it, op_id sent, op_id got) {
      const rank other = 1 - it.place().self;
      it.signal_send(other, 5);
      it.dep(it.signal_recv(other, 5), sent);  // the exit depends neither on the send nor on the signal
      it.set_exit(it.nop({got}));
    });
  });
  expect_finding(verify(world, swapped()), property::progress, "rank 0 op 3 (send to 1) may be incomplete");
}

// --- activation --------------------------------------------------------------------------------------------

TEST(verify, notices_a_rank_that_a_call_does_not_wake) {
  const algorithm& what = *find("partial_allreduce", "recursive_doubling");
  const shape data{.count = k_count, .type = dtype::f32, .what = kernel::sum};
  auto world = make_world(what.of->name, what.name, 4, false, activation_policy::solo);
  const schedule& one = *world[1];
  const op_id heard = find_op(one, op_kind::signal_recv, 1);  // receives the signal along dimension 0
  op_id signal = k_no_op;
  for (const op_id next : one.successors(heard))
    if (one.ops()[next].kind == op_kind::signal_send) signal = next;
  ASSERT_NE(signal, k_no_op);
  const postcondition promise = promise_of(what, 4, data, {.policy = activation_policy::solo});
  verify_memo known;  // has the results of the world without the fault
  EXPECT_TRUE(verify(world, promise, {.known = &known}).holds());
  world[1] = without_dep(one, heard, signal);
  for (const verify_options& options : {verify_options{}, verify_options{.known = &known}}) {
    const auto answer = verify(world, promise, options);
    expect_finding(answer, property::activation, "a call of rank 0 alone does not wake rank 3 op");
    expect_finding(answer, property::activation, "a call of rank 0 alone takes 2 signals, not 3");
  }
}

/// Expects that all results of two verifications are equal.
void expect_equal(const verification& x, const verification& y) {
  EXPECT_EQ(x.holds(), y.holds());
  EXPECT_EQ(x.round_cost, y.round_cost);
  EXPECT_EQ(x.is_synchronising, y.is_synchronising);
  EXPECT_EQ(x.is_eager_safe, y.is_eager_safe);
  ASSERT_EQ(x.unexpected.size(), y.unexpected.size());
  for (std::size_t r = 0; r < x.unexpected.size(); ++r) {
    EXPECT_EQ(x.unexpected[r].messages, y.unexpected[r].messages);
    EXPECT_EQ(x.unexpected[r].bytes, y.unexpected[r].bytes);
  }
}

TEST(verify, answers_with_a_memo_what_it_answers_without) {
  verify_memo known;
  for (const auto& [collective, name] :
       {std::pair("allreduce", "recursive_doubling"), std::pair("allreduce", "ring"), std::pair("alltoall", "bruck"),
        std::pair("gather", "binomial"), std::pair("partial_allreduce", "tree"), std::pair("adasum", "halving")})
    for (const std::uint64_t count : {0u, 1u, 4u, 6u, 1000u, 4u})
      for (const activation_policy policy : {activation_policy::solo, activation_policy::majority}) {
        const algorithm& what = *find(collective, name);
        const activation starts = what.of->activates ? activation{.policy = policy} : activation{};
        const shape data = typical_shape(*what.of, 6, count, dtype::f32, kernel::sum);
        SCOPED_TRACE(std::string(collective) + "/" + name + " " + std::to_string(count));
        const auto world = *generate_world(what, 6, data, starts);
        const postcondition promise = promise_of(what, 6, data, starts);
        const auto plain = verify(world, promise), remembered = verify(world, promise, {.known = &known});
        EXPECT_TRUE(plain.holds());
        expect_equal(plain, remembered);
      }
  // Most algorithms have one entry for count 0, and one for all other counts. The ring has an entry for each count, and
  // adasum has no entries.
  EXPECT_GT(known.worlds.size(), 8u);
  EXPECT_LT(known.worlds.size(), 40u);
}

TEST(verify, a_memo_is_not_asked_where_numbers_of_elements_make_a_difference) {
  const auto world = make_world("allreduce", "recursive_doubling", 3);
  EXPECT_TRUE(key_of(world, sum_of_all(3), {}));
  const auto has_key = [&](const std::function<void(schedule::parts&)>& change) {
    schedule::parts parts = world[0]->content();
    change(parts);
    std::vector<schedule_ptr> changed = world;
    changed[0] = std::make_shared<const schedule>(std::move(parts));
    return key_of(changed, sum_of_all(3), {}).has_value();
  };
  EXPECT_TRUE(has_key([](schedule::parts&) {}));
  EXPECT_FALSE(has_key([](schedule::parts& all) { all.buffers[0].lists.total = 1; }));
  EXPECT_FALSE(has_key([](schedule::parts& all) { all.next.push_back(0); }));
  EXPECT_FALSE(has_key([](schedule::parts& all) { all.first.clear(); }));
  EXPECT_FALSE(has_key([](schedule::parts& all) { all.ops[0].count = k_max_count + 1; }));
  EXPECT_FALSE(key_of(world, sum_of_all(3), aliasing({INT64_MIN})));
  for (const auto& edges : {std::vector<std::uint32_t>{}, std::vector<std::uint32_t>{1}}) {
    schedule::parts parts = world[0]->content();
    parts.first = edges;
    std::vector<schedule_ptr> changed = world;
    changed[0] = std::make_shared<const schedule>(std::move(parts));
    EXPECT_FALSE(verify(changed, sum_of_all(3)).holds());
  }
}

TEST(verify, a_memo_of_a_world_says_nothing_of_another_promise) {
  verify_memo known;
  const auto world = make_world("allreduce", "recursive_doubling", 6);
  postcondition promise = sum_of_all(6);
  EXPECT_TRUE(verify(world, promise, {.known = &known}).holds());
  const auto fails = [&](const postcondition& other, const aliasing& in_place = {}) {
    return !verify(world, other, {.in_place = in_place, .known = &known}).holds();
  };
  EXPECT_FALSE(fails(promise));
  promise.ranges.front().how = kernel::max;
  EXPECT_TRUE(fails(promise));
  promise = sum_of_all(6);
  promise.ranges.front().input_begin = 1;
  EXPECT_TRUE(fails(promise));
  promise = sum_of_all(6);
  promise.ranges.front().among = {0, 1, 2};
  EXPECT_TRUE(fails(promise));
  promise = sum_of_all(6);
  promise.round_cost = cost{.messages = 1};
  EXPECT_TRUE(fails(promise));
  promise = sum_of_all(6);
  promise.data = promised_data{dtype::f32, {{k_count, k_count + 1}}};
  EXPECT_TRUE(fails(promise));
  EXPECT_TRUE(fails(sum_of_all(6), true));  // the world was not generated for in-place use
}

// --- memory ------------------------------------------------------------------------------------------------

TEST(verify, notices_a_race_within_a_rank) {
  const auto world = make_world("allreduce", "recursive_doubling", 16);
  const schedule& one = *world[5];
  const op_id sent = find_op(one, op_kind::send, 1);
  const op_id first_sum = find_op(one, op_kind::compute, 0);
  const op_id third_sum = find_op(one, op_kind::compute, 2);
  for (const auto& [before, after] : {std::pair(first_sum, sent), std::pair(sent, third_sum)}) {
    auto broken = world;
    broken[5] = without_dep(one, before, after);
    ASSERT_NE(broken[5], nullptr);
    expect_finding(verify(broken, sum_of_all(16)), property::hazard, "one reads and the other writes elements [0, 6)");
  }
}

TEST(verify, notices_that_in_place_needs_another_schedule) {
  const auto world = make_world("allreduce", "recursive_doubling", 2);
  EXPECT_TRUE(verify(world, sum_of_all(2)).holds());
  expect_finding(verify(world, sum_of_all(2), {.in_place = true}), property::hazard, "one reads and the other writes");
}

TEST(verify, an_any_does_not_wait_for_the_others) {
  const auto write = [](builder& to, bool waits_for_any) {
    const buffer_id in = to.input(dtype::i32, k_count);
    const buffer_id out = to.output(dtype::i32, k_count);
    const op_id first = to.copy({in, 0}, {out, 0}, 3);
    const op_id second = to.copy({in, 3}, {out, 3}, 3);
    const op_id again = to.copy({in, 0}, {out, 0}, k_all, {first, second});
    if (waits_for_any) to.any(again);
  };
  EXPECT_TRUE(verify(write_world(1, [&](builder& to) { write(to, false); }), {}).holds());
  const auto answer = verify(write_world(1, [&](builder& to) { write(to, true); }), {});
  expect_finding(answer, property::hazard, "both write elements [0, 3)");
  expect_finding(answer, property::hazard, "both write elements [3, 6)");
}

TEST(verify, an_order_by_way_of_another_rank_is_a_note) {
  // Rank 0 writes its output, sends a signal to rank 1, receives a signal from rank 1, and writes again.
  const auto world = write_world(2, [](builder& to) {
    const rank other = 1 - to.place().self;
    if (to.place().self == 1) return void(to.signal_send(other, 0, {to.signal_recv(other, 0)}));
    const buffer_id in = to.input(dtype::i32, k_count);
    const buffer_id out = to.output(dtype::i32, k_count);
    const op_id first = to.copy({in, 0}, {out, 0}, k_all);
    to.signal_send(other, 0, {first});
    to.copy({in, 0}, {out, 0}, k_all, {to.signal_recv(other, 0)});
  });
  const auto answer = verify(world, {});
  EXPECT_TRUE(answer.holds()) << text_of(answer);
  ASSERT_EQ(answer.notes.size(), 1u);
  EXPECT_NE(answer.notes[0].text.find("only messages through other ranks define the order"), std::string::npos);
}

TEST(verify, notices_a_read_of_what_nothing_has_written) {
  const auto world = write_world(1, [](builder& to) {
    const buffer_id middle = to.scratch(dtype::i32, k_count);
    const buffer_id out = to.output(dtype::i32, k_count);
    const op_id half = to.copy({to.input(dtype::i32, k_count), 0}, {middle, 0}, 4);
    to.copy({middle, 0}, {out, 0}, k_all, {half});
  });
  expect_finding(verify(world, {}), property::contents, "reads elements [4, 6) of buffer 0, which no op has written");
}

/// Rank 0 receives a signal and sends a signal back. A round may end while a signal_recv still waits for its signal.
/// Therefore the exit of rank 0 (the op that ends its round) must wait for the signal_send.
TEST(verify, notices_a_signal_that_may_be_left_out) {
  const auto of = [](bool ends_early) {
    return verify(write_world(2,
                              [&](builder& to) {
                                const op_id other = to.nop();
                                const op_id heard = to.place().self == 0 ? to.signal_recv(1, 0) : k_no_op;
                                const op_id said = to.signal_send(1 - to.place().self, 0, {heard});
                                if (to.place().self == 1) to.set_exit(to.signal_recv(0, 0));
                                if (to.place().self == 0) to.set_exit(ends_early ? other : said);
                              }),
                  {});
  };
  EXPECT_TRUE(of(false).holds()) << text_of(of(false));
  expect_finding(of(true), property::progress,
                 "rank 0 op 2 (signal_send to 1) may be incomplete when the round ends at op 0, and rank 1 "
                 "op 2 (signal_recv from 0) then waits forever");
}

/// The number of nops is not limited, because verify() does not need to order nops. The number of other ops is limited.
TEST(verify, judges_many_nops_and_says_what_is_too_large) {
  const auto many = [](bool signals) {
    return verify(write_world(2,
                              [&](builder& to) {
                                const buffer_id in = to.input(dtype::i32, k_count),
                                                out = to.output(dtype::i32, k_count);
                                op_id last = to.copy({in, 0}, {out, 0}, k_all);
                                for (std::uint32_t k = 0; k < 150'000; ++k) {
                                  if (!signals) last = to.nop({last});
                                  if (signals && to.place().self == 0) to.signal_send(1, k);
                                  if (signals && to.place().self == 1) to.signal_recv(0, k);
                                }
                                to.set_exit(to.copy({in, 0}, {out, 0}, k_all, {last}));
                              }),
                  {});
  };
  EXPECT_TRUE(many(false).holds()) << text_of(many(false));
  expect_finding(many(true), property::hazard, "rank 0 is too large to prove: the order of its 150002 ops would take");
}

// --- contents ----------------------------------------------------------------------------------------------

TEST(verify, notices_a_contribution_that_is_in_twice) {
  auto world = make_world("allreduce", "recursive_doubling", 4);
  const op_id last = find_op(*world[0], op_kind::compute, 1);
  world[0] = with_op(*world[0], last, [](op& it) { it.b = it.a; });
  expect_finding(
      verify(world, sum_of_all(4)), property::contents,
      "rank 0 output 0 elements [0, 6): the contribution of rank 0 is contained 2 times, once as operand a of "
      "rank 0 op 2 (compute sum), then a of rank 0 op 5 (compute sum), and once as operand a of rank 0 op 2 "
      "(compute sum), then b of rank 0 op 5 (compute sum)");
}

TEST(verify, notices_a_contribution_that_got_lost) {
  auto world = make_world("allreduce", "tree", 3);
  const op_id first = find_op(*world[0], op_kind::compute);
  world[0] = with_op(*world[0], first, [](op& it) {
    it.what = kernel::copy;
    it.b = {};
  });
  expect_finding(verify(world, sum_of_all(3)), property::contents,
                 "the contribution of rank 1 is missing; no op has combined this contribution with another");
}

TEST(verify, notices_elements_from_another_place) {
  postcondition promise = swapped();
  promise.ranges[1].input_begin = 1;
  promise.ranges[1].end = k_count - 1;
  const auto world = write_world(2, [](builder& to) { swap(to, [](builder&, op_id, op_id) {}); });
  EXPECT_TRUE(verify(world, swapped()).holds());
  expect_finding(verify(world, promise), property::contents,
                 "rank 1 output 0 elements [0, 5): the contributions come from the wrong elements");
}

/// An allgather of pieces of different lengths. The piece of rank r has r+1 elements. In the output, the piece follows
/// the pieces of all lower ranks.
TEST(verify, follows_what_moves) {
  const auto first_of = [](rank r) { return static_cast<std::uint64_t>(r * (r + 1) / 2); };
  const auto world = write_world(3, [&](builder& to) {
    const rank self = to.place().self;
    const auto own = static_cast<std::uint64_t>(self) + 1;
    const buffer_id in = to.input(dtype::i32, own + 2);
    const buffer_id out = to.output(dtype::i32, 6);
    const op_id mine = to.copy({in, 2}, {out, first_of(self)}, own);
    for (const rank other : {0, 1, 2}) {
      if (other == self) continue;
      to.send(other, 0, {out, first_of(self)}, own, {mine});
      to.recv(other, 0, {out, first_of(other)}, static_cast<std::uint64_t>(other) + 1);
    }
  });
  postcondition promise;
  for (const rank holder : {0, 1, 2})
    for (const rank source : {0, 1, 2})
      promise.ranges.push_back({.holder = holder,
                                .begin = first_of(source),
                                .end = first_of(source + 1),
                                .what = promised_content::moved,
                                .input_begin = 2,
                                .source = source});
  const auto answer = verify(world, promise);
  EXPECT_TRUE(answer.holds()) << text_of(answer);
  EXPECT_TRUE(answer.is_synchronising);
  promise.ranges[4].input_begin = 1;
  EXPECT_FALSE(verify(world, promise).holds());
}

TEST(verify, notices_another_kernel) {
  auto world = make_world("allreduce", "tree", 2);
  world[0] = with_op(*world[0], find_op(*world[0], op_kind::compute), [](op& it) { it.what = kernel::max; });
  expect_finding(verify(world, sum_of_all(2)), property::contents, "another kernel than sum");
}

/// Returns an allreduce by recursive doubling on four ranks. On rank 2, one reduction has its operands in the wrong
/// order.
std::vector<schedule_ptr> world_with_a_swap(kernel what) {
  const shape data{.count = k_count, .type = dtype::f32, .what = what};
  auto all =
      whole_world(4, [&](world place) { return find("allreduce", "recursive_doubling")->generate(place, data, {}); });
  all[2] = with_op(*all[2], find_op(*all[2], op_kind::compute, 1), [](op& it) {
    std::swap(it.a, it.b);
    std::swap(it.releases_a, it.releases_b);
  });
  return all;
}

TEST(verify, notices_operands_in_another_order) {
  expect_finding(verify(world_with_a_swap(kernel::sum), sum_of_all(4)), property::expression,
                 "an operand of a higher rank comes before");
  expect_finding(verify(world_with_a_swap(kernel::user), reduced_everywhere(4, k_count, kernel::user, false)),
                 property::expression, "combined in another way than at rank 0");
}

// --- the laws of kernels -----------------------------------------------------------------------------------

void expect_proof(const verification& answer) { EXPECT_TRUE(answer.holds()) << text_of(answer); }

TEST(verify_laws, operands_of_a_commutative_kernel_change_places) {
  expect_proof(verify(world_with_a_swap(kernel::sum), reduced_everywhere(4, k_count, kernel::sum, false)));
}

/// Each of four ranks combines its value with received values, and its own value is always the first operand.
std::vector<schedule_ptr> own_first(kernel what) {
  return write_world(4, [what](builder& to) {
    buffer_id have = to.input(dtype::f32, k_count);
    op_id last = k_no_op;
    for (const rank bit : {1, 2}) {
      const buffer_id got = to.scratch(dtype::f32, k_count);
      const buffer_id sum = bit == 2 ? to.output(dtype::f32, k_count) : to.scratch(dtype::f32, k_count);
      const auto tag = static_cast<std::uint32_t>(bit);
      to.dep(last, to.send(to.place().self ^ bit, tag, {have, 0}, k_all));
      const op_id received = to.recv(to.place().self ^ bit, tag, {got, 0}, k_all);
      const op_id added = to.reduce(what, {have, 0}, {got, 0}, {sum, 0}, k_all, {received});
      to.dep(last, added);
      have = sum, last = added;
    }
  });
}

TEST(verify_laws, every_rank_may_have_its_own_operand_first_if_the_kernel_commutes) {
  expect_proof(verify(own_first(kernel::sum), reduced_everywhere(4, k_count, kernel::sum, false)));
  expect_finding(verify(own_first(kernel::user), reduced_everywhere(4, k_count, kernel::user, false)),
                 property::expression, "combined in another way than at rank 0");
}

/// Each of three ranks sends its input to all other ranks. Rank 0 adds the inputs from left to right, and the
/// other ranks add them from right to left.
std::vector<schedule_ptr> grouped(dtype type) {
  return write_world(3, [type](builder& to) {
    const rank self = to.place().self;
    const buffer_id in = to.input(type, k_count), out = to.output(type, k_count), pair = to.scratch(type, k_count);
    std::array<buffer_id, 3> of{in, in, in};
    const op_id all = to.nop();
    for (rank r = 0; r < 3; ++r) {
      if (r == self) continue;
      of[static_cast<std::size_t>(r)] = to.scratch(type, k_count);
      to.send(r, 0, {in, 0}, k_all);
      to.dep(to.recv(r, 0, {of[static_cast<std::size_t>(r)], 0}, k_all), all);
    }
    const bool from_left = self == 0;
    const op_id first =
        to.reduce(kernel::sum, {of[from_left ? 0 : 1], 0}, {of[from_left ? 1 : 2], 0}, {pair, 0}, k_all, {all});
    from_left ? to.reduce(kernel::sum, {pair, 0}, {of[2], 0}, {out, 0}, k_all, {first})
              : to.reduce(kernel::sum, {of[0], 0}, {pair, 0}, {out, 0}, k_all, {first});
  });
}

TEST(verify_laws, sums_of_integers_may_be_grouped_in_any_way_and_others_not) {
  for (const dtype type : {dtype::i8, dtype::i32, dtype::u64})
    expect_proof(verify(grouped(type), reduced_everywhere(3, k_count, kernel::sum, false)));
  for (const dtype type : {dtype::f16, dtype::f64})
    expect_finding(verify(grouped(type), reduced_everywhere(3, k_count, kernel::sum, false)), property::expression,
                   "combined in another way than at rank 0");
}

/// Each rank sends its value to the ranks at distance 1, 2, 4, …. If the number of ranks is no power of two, some
/// contributions are combined twice.
std::vector<schedule_ptr> disseminated(rank size, kernel what, rank steps_left_out = 0) {
  return write_world(size, [=](builder& to) {
    const rank self = to.place().self;
    buffer_id have = to.input(dtype::f32, k_count);
    op_id last = k_no_op;
    std::uint32_t tag = 0;
    for (rank distance = 1; distance < size - steps_left_out; distance *= 2, ++tag) {
      const bool is_last = 2 * distance >= size - steps_left_out;
      const buffer_id got = to.scratch(dtype::f32, k_count);
      const buffer_id both = is_last ? to.output(dtype::f32, k_count) : to.scratch(dtype::f32, k_count);
      to.dep(last, to.send((self + distance) % size, tag, {have, 0}, k_all));
      const op_id received = to.recv((self - distance + size) % size, tag, {got, 0}, k_all);
      const op_id combined = to.reduce(what, {have, 0}, {got, 0}, {both, 0}, k_all, {received});
      to.dep(last, combined);
      have = both, last = combined;
    }
  });
}

TEST(verify_laws, an_idempotent_kernel_may_meet_a_contribution_again) {
  for (const rank size : {3, 5, 6, 7, 4, 8, 33})
    for (const kernel what : {kernel::max, kernel::min})
      expect_proof(verify(disseminated(size, what), reduced_everywhere(size, k_count, what, false)));
  expect_finding(verify(disseminated(3, kernel::sum), reduced_everywhere(3, k_count, kernel::sum, false)),
                 property::contents, "the contribution of rank 0 is contained 2 times");
}

TEST(verify_laws, an_idempotent_kernel_has_to_meet_every_contribution) {
  expect_finding(verify(disseminated(7, kernel::max, 3), reduced_everywhere(7, k_count, kernel::max, false)),
                 property::contents, "is missing");
}

/// In partial schedules, the engine counts contributors. In this schedule, the engine would count the same rank twice.
TEST(verify_laws, partial_schedules_meet_a_contribution_once_whatever_the_kernel) {
  const auto twice = [](bool is_partial) {
    return write_world(1, [is_partial](builder& to) {
      const buffer_id in = to.input(dtype::f32, k_count), out = to.output(dtype::f32, k_count);
      const op_id captured = is_partial ? to.capture(kernel::max, {in, 0}, k_all, {to.call()}) : to.nop();
      to.reduce(kernel::max, {in, 0}, {in, 0}, {out, 0}, k_all, {captured});
      to.declare_synchronising();
      if (is_partial) to.set_activation({.policy = activation_policy::full});
    });
  };
  const postcondition promise = reduced_everywhere(1, k_count, kernel::max, false);
  expect_proof(verify(twice(false), promise));
  expect_finding(verify(twice(true), promise), property::contents, "is contained 2 times");
}

// --- expressions -------------------------------------------------------------------------------------------

TEST(verify, notices_another_tree_than_the_promised_one) {
  postcondition promise = sum_of_all(2);
  for (promised_range& it : promise.ranges) it.tree = reduced_tree(kernel::sum, dtype::f32, std::array<rank, 2>{0, 1});
  const auto world = make_world("allreduce", "tree", 2);
  EXPECT_TRUE(verify(world, promise).holds());
  for (promised_range& it : promise.ranges) it.tree = reduced_tree(kernel::prod, dtype::f32, std::array<rank, 2>{0, 1});
  expect_finding(verify(world, promise), property::expression, "another tree than the algorithm defines");
}

TEST(verify, notices_who_should_not_have_contributed) {
  postcondition promise = sum_of_all(3);
  for (promised_range& it : promise.ranges) it.among = {0, 2};
  expect_finding(verify(make_world("allreduce", "tree", 3), promise), property::contents,
                 "the contribution of rank 1 is contained, but must not be");
}

// --- lists and guards --------------------------------------------------------------------------------------

verification verify_gather(const list_gather& how, rank size = 3) {
  return verify(list_gather_world(size, how), all_lists(size));
}

TEST(verify, proves_lists_whose_lengths_go_first) {
  for (const rank size : {1, 2, 3, 5}) EXPECT_TRUE(verify_gather({}, size).holds()) << text_of(verify_gather({}, size));
  EXPECT_TRUE(verify_gather({.skips_empty = false}).holds());
}

TEST(verify, notices_lists_that_are_not_laid_out_or_by_others_lengths) {
  expect_finding(verify_gather({.lays_out = false}), property::contents, "but no lay_out has set the lengths");
  expect_finding(verify_gather({.turns_lengths = true}), property::contents,
                 "but lay_out has set the lengths of other lists");
  expect_finding(verify_gather({.sends_other_list = true}), property::contents,
                 "but lay_out has set the lengths of other lists");
}

TEST(verify, looks_at_rounds_in_which_guards_are_not_due) {
  expect_finding(verify_gather({.every = 2}), property::contents, "no op has written");
}

TEST(verify, notices_ends_of_an_edge_with_different_guards) {
  const auto of = [](const guard& one, const guard& other) {
    return verify(write_world(2,
                              [&](builder& to) {
                                const buffer_id s = to.scratch(dtype::i32, 1);
                                const op_id filled = to.copy({to.input(dtype::i32, 1), 0}, {s, 0}, 1);
                                const op_id it = to.place().self == 0 ? to.send(1, 7, {s, 0}, 1, {filled})
                                                                      : to.recv(0, 7, {s, 0}, 1, {filled});
                                to.set_guard(it, to.place().self == 0 ? one : other);
                                add_barrier(to, it);
                                to.declare_synchronising();
                              }),
                  {});
  };
  const guard late{.every = 2, .phase = 1};
  EXPECT_TRUE(of(late, late).holds()) << text_of(of(late, late));
  expect_finding(of({.every = 2}, {.every = 3}), property::matching, "has another guard than rank 1");
  expect_finding(of({.every = 2}, late), property::matching, "has another guard than rank 1");
}

/// Some messages are sent only in some rounds. In the other rounds, such a message cannot prove that the sender has
/// entered the round.
TEST(verify, knows_that_a_guarded_message_synchronises_nobody) {
  const auto of = [](std::uint32_t every) {
    return verify(write_world(2,
                              [&](builder& to) {
                                const rank other = 1 - to.place().self;
                                const buffer_id in = to.input(dtype::i32, 1), out = to.output(dtype::i32, 1);
                                const op_id sent = to.send(other, 0, {in, 0}, 1);
                                const op_id got = to.recv(other, 0, {out, 0}, 1);
                                for (const op_id it : {sent, got})
                                  if (every != 1) to.set_guard(it, {.every = every});
                                to.declare_synchronising();
                              }),
                  {});
  };
  EXPECT_TRUE(of(1).holds()) << text_of(of(1));
  expect_finding(of(2), property::synchronising, "may end its round before");
}

TEST(verify, notices_lists_that_hold_more_at_one_end) {
  const auto of = [](std::uint64_t room) {
    return verify(write_world(2,
                              [&](builder& to) {
                                const bool sends = to.place().self == 0;
                                const buffer_id in = to.lists(buffer_role::input, dtype::i32, 1, {.room = k_list_room});
                                const buffer_id out = to.lists(buffer_role::output, dtype::i32, 1, {.room = room});
                                sends ? to.send(1, 0, {in, 0}, 1) : to.recv(0, 0, {out, 0}, 1);
                              }),
                  {});
  };
  EXPECT_TRUE(of(k_list_room).holds()) << text_of(of(k_list_room));
  expect_finding(of(k_list_room + 1), property::matching,
                 "carries 1 lists of at most 5 x i32, but rank 1 op 0 (recv from");
}

// --- cost and synchronisation -----------------------------------------------------------------------------

TEST(verify, notices_another_cost) {
  postcondition promise = sum_of_all(4);
  promise.round_cost = find("allreduce", "tree")->cost_of(4, {.count = k_count, .type = dtype::f32});
  const auto world = make_world("allreduce", "tree", 4);
  EXPECT_TRUE(verify(world, promise).holds());
  ++promise.round_cost->hops;
  expect_finding(verify(world, promise), property::cost, "a round takes 2 hops, but 3 are declared");
}

TEST(verify, counts_hops_to_the_end_of_the_round_and_not_to_its_exit) {
  const auto world = write_world(2, [](builder& to) {
    const buffer_id in = to.input(dtype::i32, k_count);
    const buffer_id out = to.output(dtype::i32, k_count);
    if (to.place().self == 0) {
      const op_id got = to.recv(1, 0, {out, 0}, k_all);
      to.send(1, 1, {in, 0}, k_all, {got});
      to.set_exit(got);
    } else {
      to.recv(0, 1, {out, 0}, k_all);
      to.set_exit(to.send(0, 0, {in, 0}, k_all));
    }
  });
  EXPECT_EQ(verify(world, {}).round_cost.hops, 2u);
}

TEST(verify, notices_a_broadcast_that_is_declared_synchronising) {
  const auto world = write_world(3, [](builder& to) {
    const buffer_id in = to.input(dtype::i32, k_count);
    const buffer_id out = to.output(dtype::i32, k_count);
    if (to.place().self != 0) to.recv(0, 0, {out, 0}, k_all);
    if (to.place().self == 0)
      for (const rank other : {1, 2}) to.send(other, 0, {in, 0}, k_all);
    to.declare_synchronising();
  });
  const auto answer = verify(world, {});
  EXPECT_FALSE(answer.is_synchronising);
  expect_finding(answer, property::synchronising, "rank 1 may end its round before rank 2 has entered the round");
}

TEST(verify, says_no_more_than_asked_for) {
  auto world = make_world("allreduce", "recursive_doubling", 8);
  for (rank r = 0; r < 8; ++r) {
    auto& mine = world[static_cast<std::size_t>(r)];
    mine = with_op(*mine, find_op(*mine, op_kind::send), [](op& it) { it.tag = 9; });
  }
  EXPECT_EQ(verify(world, sum_of_all(8), {.most_findings = 3}).findings.size(), 3u);
}

}  // namespace
}  // namespace lsched
