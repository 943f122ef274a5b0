// Tests of compile(): refusals, the order of ops, and payloads that are read in place. Also tests of the text forms of
// schedules.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "libsched/schedule/builder.h"
#include "tests/support/sampler.h"

namespace lsched {
namespace {

using ids = std::vector<op_id>;

template <class T>
std::vector<T> list(std::span<const T> all) {
  return {all.begin(), all.end()};
}

/// Returns the failure of compile(), or a failure with code ok if compile() succeeds.
failure refusal_of(const builder& it) {
  const auto made = it.compile();
  return made ? failure{status::ok, "it compiled"} : made.error();
}

::testing::AssertionResult refuses(const builder& it, status code, op_id where, std::string_view phrase) {
  const failure why = refusal_of(it);
  if (why.code == code && why.op == where && why.text.find(phrase) != std::string::npos)
    return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << name_of(why.code) << " at op " << why.op << ": " << why.text;
}

schedule_ptr compiled(const builder& it) {
  const auto made = it.compile();
  if (made) return *made;
  ADD_FAILURE() << made.error().text;
  return *builder({0, 1}).compile();
}

/// A builder for rank 1 of 3, with an input, an output and a scratch buffer of four f32 each.
struct bench : builder {
  bench() : builder({1, 3}) {}
  buffer_id x = input(dtype::f32, 4), y = output(dtype::f32, 4), s = scratch(dtype::f32, 4);
  std::uint64_t four = 4;
};

// --- refusals ----------------------------------------------------------------------------------------------

TEST(compile, refuses_a_peer_outside_the_world) {
  for (const rank peer : {-1, 3, 1000}) {
    bench b;
    b.nop();
    b.send(peer, 0, {b.x, 0}, b.four);
    EXPECT_EQ(refusal_of(b).peer, k_no_rank) << "the error must not blame a rank that does not exist";
    EXPECT_TRUE(refuses(b, status::argument, 1,
                        "op 1 (send): peer " + std::to_string(peer) + " is not a rank of the world: use 0 to 2"));
  }
}

TEST(compile, refuses_a_message_to_or_from_the_rank_itself) {
  bench sends, receives, signals;
  sends.send(1, 0, {sends.x, 0}, sends.four);
  receives.recv(1, 0, {receives.s, 0}, receives.four);
  signals.signal_send(1, 0);
  EXPECT_TRUE(refuses(sends, status::argument, 0, "is the rank itself"));
  EXPECT_TRUE(refuses(receives, status::argument, 0, "is the rank itself"));
  EXPECT_TRUE(refuses(signals, status::argument, 0, "is the rank itself"));
}

TEST(compile, takes_a_signal_from_the_rank_itself_as_the_applications_call) {
  bench b;
  b.call();
  const schedule_ptr made = compiled(b);
  EXPECT_EQ(made->ops()[0].kind, op_kind::signal_recv);
  EXPECT_EQ(made->ops()[0].peer, 1);
}

TEST(compile, refuses_a_region_that_leaves_its_buffer_by_one_element) {
  bench b, past_end;
  b.send(0, 0, {b.x, 1}, b.four);
  past_end.send(0, 0, {past_end.x, 5}, 0);
  EXPECT_TRUE(refuses(b, status::bounds, 0, "4 elements at b0[1], exceeds its buffer of 4"));
  EXPECT_TRUE(refuses(past_end, status::bounds, 0, "0 elements at b0[5]"));
}

TEST(compile, takes_a_region_that_ends_where_its_buffer_ends) {
  bench b;
  b.send(0, 0, {b.x, 1}, 3);
  b.send(0, 1, {b.x, 4}, 0);
  EXPECT_EQ(refusal_of(b).code, status::ok);
}

/// A builder for rank 1 of 3, with three separate lists, three packed lists, and their lengths.
struct list_bench : builder {
  list_bench() : builder({1, 3}) { declare_synchronising(); }
  buffer_id apart = lists(buffer_role::scratch, dtype::f32, 3, {.room = 5});
  buffer_id packed = lists(buffer_role::scratch, dtype::f32, 3, {.room = 5, .total = 9});
  buffer_id lengths = scratch(dtype::u64, 3), plain = scratch(dtype::f32, 3);
};

TEST(compile, knows_what_ops_may_do_with_lists) {
  const auto refusal = [](const std::function<void(list_bench&)>& write) {
    list_bench b;
    write(b);
    return refusal_of(b).text;
  };
  for (const auto& sound : std::vector<std::function<void(list_bench&)>>{
           [](list_bench& b) {
             b.measure({b.apart, 1}, {b.lengths, 0}, 2);
           },
           [](list_bench& b) {
             b.lay_out({b.lengths, 0}, b.packed);
           },
           [](list_bench& b) {
             b.copy({b.apart, 0}, {b.packed, 0}, 3);
           },
           [](list_bench& b) {
             b.send(0, 0, {b.packed, 0}, 3);
           },
           [](list_bench& b) {
             b.recv(0, 0, {b.apart, 2}, 1);
           },
           [](list_bench& b) {
             b.set_guard(b.recv(0, 0, {b.packed, 0}, 2), {.every = 3, .skips_empty = true});
           },
           [](list_bench& b) {
             b.set_guard(b.send(0, 0, {b.apart, 0}, 1), {.skips_empty = true});
           },
           [](list_bench& b) {
             b.set_guard(b.send(0, 0, {b.plain, 0}, 1), {.every = 2});
           }})
    EXPECT_EQ(refusal(sound), "it compiled");
  const std::vector<std::pair<std::function<void(list_bench&)>, std::string>> wrong{
      {[](list_bench& b) {
         b.send(0, 0, {b.apart, 0}, 2);
       },
       "a message can have only one list that is not packed"},
      {[](list_bench& b) {
         b.copy({b.apart, 0}, {b.plain, 0}, 3);
       },
       "a copy cannot mix lists and other data"},
      {[](list_bench& b) {
         b.measure({b.plain, 0}, {b.lengths, 0}, 3);
       },
       "the kernel measure must read lists and write numbers"},
      {[](list_bench& b) {
         b.lay_out({b.lengths, 0}, b.apart);
       },
       "the kernel lay_out must read numbers and write packed lists"},
      {[](list_bench& b) {
         b.reduce(kernel::sum, {b.plain, 0}, {b.plain, 0}, {b.apart, 0}, 3);
       },
       "this kernel cannot compute with lists"},
      {[](list_bench& b) {
         b.measure({b.apart, 0}, {b.plain, 0}, 3);
       },
       "region c is f32 but lengths are u64"},
      {[](list_bench& b) {
         b.measure({b.apart, 2}, {b.lengths, 0}, 2);
       },
       "exceeds its buffer of 3"},
      {[](list_bench& b) { b.set_guard(b.nop(), {.every = 2}); }, "only sends, receives and computes can have guards"},
      {[](list_bench& b) {
         b.set_guard(b.recv(0, 0, {b.apart, 0}, 1), {.skips_empty = true});
       },
       "a receive can skip empty lists only if they are packed"},
      {[](list_bench& b) {
         b.set_guard(b.send(0, 0, {b.plain, 0}, 1), {.skips_empty = true});
       },
       "the guard skips empty lists, but the op moves no lists"}};
  for (const auto& [write, why] : wrong) EXPECT_NE(refusal(write).find(why), std::string::npos) << refusal(write);
}

TEST(compile, has_lists_in_ordinary_schedules_and_guards_in_synchronising_ones) {
  builder partial({1, 3});
  partial.lists(buffer_role::output, dtype::f32, 1, {.room = 1});
  partial.set_activation({activation_policy::solo});
  EXPECT_EQ(refusal_of(partial).text, "a partial schedule cannot have lists as inputs or outputs");
  builder ahead({1, 3});
  ahead.set_guard(ahead.send(0, 0, {ahead.scratch(dtype::f32, 1), 0}, 1), {.every = 2});
  EXPECT_EQ(refusal_of(ahead).text, "guards need a synchronising schedule");
}

TEST(compile, checks_every_region_of_a_reduction) {
  for (const std::uint64_t wrong : {0u, 1u, 2u}) {
    bench b;
    const auto at = [wrong](std::uint64_t i) { return std::uint64_t{i == wrong ? 1u : 0u}; };
    b.reduce(kernel::sum, {b.x, at(0)}, {b.s, at(1)}, {b.y, at(2)}, b.four);
    EXPECT_TRUE(refuses(b, status::bounds, 0, "region " + std::string(1, static_cast<char>('a' + wrong))));
  }
}

TEST(compile, refuses_a_region_without_a_buffer) {
  bench missing, unknown;
  missing.send(0, 0, region{}, 0);
  unknown.copy({unknown.x, 0}, {3, 0}, unknown.four);
  EXPECT_TRUE(refuses(missing, status::argument, 0, "region a names no buffer"));
  const std::string why = "region c is in buffer 3, which does not exist: this schedule has 3";
  EXPECT_TRUE(refuses(unknown, status::argument, 0, why));
}

TEST(compile, refuses_a_count_above_the_largest) {
  bench b;
  b.send(0, 0, {b.x, 0}, k_max_count + 1);
  EXPECT_TRUE(refuses(b, status::argument, 0, "count is above"));
}

TEST(compile, refuses_a_tag_used_twice_with_a_peer_in_one_direction) {
  bench sends, receives, signals, calls;
  for (int i = 0; i < 2; ++i) {
    sends.send(0, 7, {sends.x, 0}, sends.four);
    receives.recv(2, 7, {receives.s, 0}, receives.four);
    signals.signal_send(0, 7);
    calls.call();
  }
  EXPECT_TRUE(refuses(sends, status::argument, 1, "tag 7 with peer 0 is already used by op 0"));
  EXPECT_TRUE(refuses(receives, status::argument, 1, "tag 7 with peer 2 is already used by op 0"));
  EXPECT_TRUE(refuses(signals, status::argument, 1, "tag 7 with peer 0 is already used by op 0"));
  EXPECT_TRUE(refuses(calls, status::argument, 1, "tag 0 with peer 1 is already used by op 0"));
}

TEST(compile, takes_a_tag_again_for_another_peer_direction_or_a_signal) {
  bench b;
  b.send(0, 7, {b.x, 0}, b.four);
  b.send(2, 7, {b.x, 0}, b.four);
  b.recv(0, 7, {b.s, 0}, b.four);
  b.signal_send(0, 7);
  b.signal_recv(0, 7);
  EXPECT_EQ(refusal_of(b).code, status::ok);
}

TEST(compile, refuses_regions_of_different_dtypes) {
  bench b;
  const buffer_id i = b.scratch(dtype::i32, 4);
  b.copy({i, 0}, {b.s, 0}, b.four);
  EXPECT_TRUE(refuses(b, status::argument, 0, "region a is i32 but the op is f32"));
}

TEST(compile, refuses_exactly_the_reductions_that_no_kernel_supports) {
  for (const kernel what : k_all_reductions)
    for (const dtype type : k_all_dtypes) {
      builder b({0, 1});
      const buffer_id s = b.scratch(type, 4);
      b.reduce(what, {s, 0}, {s, 0}, {s, 0}, 4);
      const bool is_taken = refusal_of(b).code == status::ok;
      EXPECT_EQ(is_taken, supports(what, type)) << name_of(what) << " " << name_of(type);
      EXPECT_TRUE(is_taken || refuses(b, status::argument, 0, " is not defined for "));
    }
}

TEST(compile, refuses_to_divide_by_less_than_two) {
  for (const dtype type : k_all_dtypes)
    for (const std::uint32_t divisor : {0u, 1u, 2u, 3u, ~0u}) {
      builder b({0, 1});
      const buffer_id s = b.scratch(type, 4), t = b.scratch(type, 4);
      b.divide({s, 0}, {t, 0}, 4, divisor);
      if (divisor < 2)
        EXPECT_TRUE(refuses(b, status::argument, 0, "the divisor is " + std::to_string(divisor) + ": use 2 or more"));
      else
        EXPECT_EQ(refusal_of(b).code, status::ok) << name_of(type) << " / " << divisor;
    }
}

TEST(compile, refuses_a_capture_whose_merge_is_no_reduction_on_its_dtype) {
  for (const kernel merge : {kernel::none, kernel::copy, kernel::band, kernel::dot_norms, kernel::divide}) {
    bench b;
    b.capture(merge, {b.x, 0}, b.four);
    EXPECT_TRUE(refuses(b, status::argument, 0,
                        "op 0 (capture): the reduction " + std::string(name_of(merge)) + " is not defined for f32"));
  }
}

TEST(compile, refuses_operands_that_overlap_without_being_the_same) {
  for (int pair = 0; pair < 3; ++pair) {
    builder b({0, 1});
    const buffer_id s = b.scratch(dtype::i32, 9);
    const buffer_id t = b.scratch(dtype::i32, 9);
    const region low{s, 0}, high{s, 3}, other{t, 0};
    b.reduce(kernel::sum, pair == 2 ? other : low, pair == 1 ? other : high,
             pair == 0   ? other
             : pair == 1 ? high
                         : low,
             4);
    EXPECT_TRUE(refuses(b, status::argument, 0, "overlap"));
  }
}

TEST(compile, takes_operands_that_touch_or_are_the_same) {
  builder b({0, 1});
  const buffer_id s = b.scratch(dtype::i32, 8);
  b.reduce(kernel::sum, {s, 0}, {s, 4}, {s, 0}, 4);
  b.copy({s, 4}, {s, 0}, 4);
  EXPECT_EQ(refusal_of(b).code, status::ok);
}

TEST(compile, refuses_to_write_an_input_except_by_capture) {
  bench receives, computes, captures;
  receives.recv(0, 0, {receives.x, 0}, receives.four);
  computes.copy({computes.s, 0}, {computes.x, 0}, computes.four);
  captures.capture(kernel::sum, {captures.x, 0}, captures.four);
  captures.set_activation({activation_policy::solo});
  EXPECT_TRUE(refuses(receives, status::argument, 0, "writes to input buffer 0"));
  EXPECT_TRUE(refuses(computes, status::argument, 0, "writes to input buffer 0"));
  EXPECT_EQ(refusal_of(captures).code, status::ok);
}

TEST(compile, refuses_a_capture_that_nobody_offers_to) {
  bench b;
  b.nop();
  b.capture(kernel::sum, {b.x, 0}, b.four);
  EXPECT_TRUE(refuses(b, status::argument, 1, "only a partial schedule can have a capture"));
}

/// A `bench` with three more buffers: `d` in device memory, `p` and `sums` in staging memory.
struct device_bench : bench {
  buffer_id d = declare(buffer_role::input, dtype::f32, 4, memory_space::device);
  buffer_id p = declare(buffer_role::scratch, dtype::f32, 4, memory_space::staging);
  buffer_id sums = declare(buffer_role::scratch, dtype::f64, 3, memory_space::staging);
};

TEST(compile, refuses_that_the_host_touches_device_memory) {
  device_bench sends, receives, calls, mixes;
  sends.send(0, 0, {sends.d, 0}, 4);
  const buffer_id target = receives.declare(buffer_role::output, dtype::f32, 4, memory_space::device);
  receives.recv(0, 0, {target, 0}, 4);
  calls.compute(kernel::user, {.a = {calls.d, 0}, .b = {calls.p, 0}, .c = {calls.p, 0}}, 4);
  mixes.reduce(kernel::sum, {mixes.d, 0}, {mixes.s, 0}, {mixes.p, 0}, 4);
  for (const builder* one : {&sends, &receives, &calls})
    EXPECT_TRUE(refuses(*one, status::argument, 0, "this kind of op cannot run on a device"));
  EXPECT_TRUE(refuses(mixes, status::argument, 0, "cannot access its region b in host memory"));
}

TEST(compile, takes_computes_of_a_device_on_its_memory_and_on_staging_memory) {
  device_bench b;
  const op_id dots = b.dot_norms({b.d, 0}, {b.p, 0}, {b.sums, 0}, 4);
  b.adasum({b.d, 0}, {b.p, 0}, {b.sums, 0}, {b.p, 0}, 4, {dots});
  EXPECT_EQ(refusal_of(b).code, status::ok) << refusal_of(b).text;
}

TEST(compile, takes_functions_over_device_memory_and_the_hosts) {
  device_bench b;
  b.apply(kernel::split, 0, b.d, k_no_buffer, b.s);
  EXPECT_EQ(refusal_of(b).code, status::ok) << refusal_of(b).text;
}

TEST(compile, refuses_sums_that_only_one_of_host_and_device_reaches) {
  device_bench host, device;
  host.dot_norms({host.d, 0}, {host.p, 0}, {host.scratch(dtype::f64, 3), 0}, 4);
  const buffer_id sums = device.declare(buffer_role::scratch, dtype::f64, 3, memory_space::device);
  device.dot_norms({device.d, 0}, {device.p, 0}, {sums, 0}, 4);
  EXPECT_TRUE(refuses(host, status::argument, 0, "cannot access its region c in host memory"));
  EXPECT_TRUE(refuses(device, status::argument, 0, "has sums in device memory"));
}

TEST(compile, refuses_a_need_above_the_in_degree) {
  bench b, root;
  const op_id first = b.nop();
  b.set_need(b.nop({first}), 2);
  root.any(root.nop());
  EXPECT_TRUE(refuses(b, status::argument, 1, "needs 2 tokens but has 1 dep"));
  EXPECT_TRUE(refuses(root, status::argument, 0, "needs 1 token but has 0 deps"));
}

TEST(compile, refuses_the_same_dep_twice) {
  bench b;
  const op_id first = b.nop(), second = b.nop({first});
  b.dep(first, second);
  EXPECT_TRUE(refuses(b, status::argument, 1, "the dep on op 0 was added twice"));
}

TEST(compile, refuses_an_op_that_waits_for_itself) {
  bench b;
  const op_id only = b.nop();
  b.dep(only, only);
  EXPECT_TRUE(refuses(b, status::cycle, 0, "through its dep on op 0"));
}

// The deps are 0 -> 1 -> 2 -> 3 -> 1, and 3 -> 4. Op 4 depends on an op of the cycle, but is not part of the cycle.
TEST(compile, names_an_op_on_the_cycle_not_one_behind_it) {
  bench b;
  const op_id zero = b.nop(), one = b.nop({zero}), two = b.nop({one}), three = b.nop({two});
  b.nop({three});
  b.dep(three, one);
  const failure why = refusal_of(b);
  EXPECT_EQ(why.code, status::cycle);
  EXPECT_TRUE(why.op == one || why.op == two || why.op == three) << why.op;
}

// --- exit and need -----------------------------------------------------------------------------------------

TEST(compile, takes_the_only_leaf_as_exit) {
  bench b;
  const op_id first = b.nop(), second = b.nop({first});
  b.nop({first, second});
  const schedule_ptr made = compiled(b);
  EXPECT_EQ(made->exit(), 2u);
  EXPECT_EQ(made->ops().size(), 3u);
}

TEST(compile, appends_a_nop_that_waits_for_all_leaves_as_exit) {
  bench b;
  const op_id root = b.nop();
  for (std::uint32_t tag = 0; tag < 3; ++tag) b.signal_send(0, tag, {root});
  const schedule_ptr made = compiled(b);
  EXPECT_EQ(made->exit(), 4u);
  EXPECT_EQ(made->ops()[4].kind, op_kind::nop);
  EXPECT_EQ(made->ops()[4].need, 3u);
  for (op_id leaf = 1; leaf < 4; ++leaf) EXPECT_EQ(list(made->successors(leaf)), ids{4});
}

TEST(compile, takes_the_given_exit_even_if_it_covers_not_all_ops) {
  bench b;
  b.nop();
  const op_id chosen = b.nop();
  b.nop({chosen});
  b.set_exit(chosen);
  const schedule_ptr made = compiled(b);
  EXPECT_EQ(made->exit(), 1u);
  EXPECT_EQ(made->ops().size(), 3u);
}

TEST(compile, renumbers_the_given_exit) {
  bench b;
  const op_id late = b.signal_send(0, 0), early = b.nop();
  b.dep(early, late);
  b.set_exit(late);
  EXPECT_EQ(compiled(b)->exit(), 1u);
}

TEST(compile, makes_a_single_nop_of_a_schedule_without_ops) {
  const schedule_ptr made = compiled(bench());
  ASSERT_EQ(made->ops().size(), 1u);
  EXPECT_EQ(made->ops()[0], op{});
  EXPECT_EQ(list(made->roots()), ids{0});
  EXPECT_EQ(made->exit(), 0u);
}

TEST(compile, waits_for_all_unless_told_otherwise) {
  bench b;
  const op_id x = b.nop(), y = b.nop(), z = b.nop();
  b.nop({x, y, z});
  b.set_need(b.nop({x, y, z}), 2);
  b.any(b.nop({x, y, z}));
  const op_id restored = b.nop({x, y, z});
  b.any(restored);
  b.set_need(restored, 0);
  const schedule_ptr made = compiled(b);
  ids needs;
  for (const op& it : made->ops()) needs.push_back(it.need);
  EXPECT_EQ(needs, (ids{0, 0, 0, 3, 2, 1, 3, 4}));
}

// --- order -------------------------------------------------------------------------------------------------

TEST(compile, keeps_the_numbers_of_ops_appended_in_a_topological_order) {
  bench b;
  op_id last = k_no_op;
  for (std::uint32_t tag = 0; tag < 40; ++tag) {
    const op_id next = b.signal_send(0, tag);
    if (tag % 3 == 0) b.dep(last, next);
    last = next;
  }
  const schedule_ptr made = compiled(b);
  for (std::uint32_t tag = 0; tag < 40; ++tag) EXPECT_EQ(made->ops()[tag].tag, tag);
}

/// A random DAG whose ops are appended in random order. Op i has tag i, so that tests can find the op after compile().
struct random_graph {
  explicit random_graph(std::uint32_t seed) {
    std::mt19937 random(seed);
    size = 1 + static_cast<std::uint32_t>(random() % 12);
    ids hidden_order(size);
    for (op_id id = 0; id < size; ++id) hidden_order[id] = id, build.signal_send(0, id);
    std::shuffle(hidden_order.begin(), hidden_order.end(), random);
    for (op_id i = 0; i < size; ++i)
      for (op_id j = i + 1; j < size; ++j)
        if (random() % 4 == 0) deps.emplace(hidden_order[i], hidden_order[j]);
    for (const auto& [before, after] : deps) build.dep(before, after);
    build.set_exit(hidden_order.back());
  }
  /// Returns the expected order. Among the ops whose predecessors have all been placed, the op that was appended first
  /// comes next.
  ids expected_order() const {
    ids placed;
    const auto is_placed = [&placed](op_id id) { return std::find(placed.begin(), placed.end(), id) != placed.end(); };
    while (placed.size() < size)
      for (op_id id = 0; id < size; ++id) {
        const bool is_ready = std::all_of(deps.begin(), deps.end(),
                                          [&](const auto& dep) { return dep.second != id || is_placed(dep.first); });
        if (is_placed(id) || !is_ready) continue;
        placed.push_back(id);
        break;
      }
    return placed;
  }
  bool reaches(op_id from, op_id to) const {
    std::set<op_id> seen;
    ids open{from};
    while (!open.empty()) {
      const op_id at = open.back();
      open.pop_back();
      for (const auto& [before, after] : deps)
        if (before == at && seen.insert(after).second) open.push_back(after);
    }
    return seen.contains(to);
  }
  builder build{{1, 2}};
  std::uint32_t size = 0;
  std::set<std::pair<op_id, op_id>> deps;
};

TEST(compile, numbers_topologically_and_as_close_to_append_order_as_can_be) {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const random_graph graph(seed);
    const schedule_ptr made = compiled(graph.build);
    ids order;
    for (const op& it : made->ops()) order.push_back(it.tag);
    EXPECT_EQ(order, graph.expected_order());
  }
}

TEST(compile, keeps_exactly_the_deps_sorted_and_going_up) {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const random_graph graph(seed);
    const schedule_ptr made = compiled(graph.build);
    std::set<std::pair<op_id, op_id>> deps;
    for (op_id id = 0; id < made->ops().size(); ++id) {
      const ids next = list(made->successors(id));
      EXPECT_TRUE(std::is_sorted(next.begin(), next.end()));
      EXPECT_TRUE(next.empty() || next.front() > id);
      for (const op_id to : next) deps.emplace(made->ops()[id].tag, made->ops()[to].tag);
    }
    EXPECT_EQ(deps, graph.deps);
    EXPECT_EQ(made->dep_count(), graph.deps.size());
  }
}

TEST(compile, lists_as_roots_exactly_the_ops_without_deps) {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const random_graph graph(seed);
    const schedule_ptr made = compiled(graph.build);
    ids roots;
    for (op_id id = 0; id < made->ops().size(); ++id)
      if (made->ops()[id].need == 0) roots.push_back(id);
    EXPECT_EQ(list(made->roots()), roots);
    for (const op_id id : roots)
      for (const auto& dep : graph.deps) EXPECT_NE(dep.second, made->ops()[id].tag);
  }
}

TEST(compile, finds_every_cycle_and_names_an_op_that_reaches_itself) {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    random_graph graph(seed);
    if (graph.deps.empty()) continue;
    const auto [before, after] = *std::next(graph.deps.begin(), seed % static_cast<std::uint32_t>(graph.deps.size()));
    graph.build.dep(after, before);
    graph.deps.emplace(after, before);
    const failure why = refusal_of(graph.build);
    EXPECT_EQ(why.code, status::cycle);
    EXPECT_TRUE(graph.reaches(why.op, why.op));
  }
}

TEST(compile, carries_over_what_was_declared) {
  builder b({2, 5}, "first name");
  b.input(dtype::f64, 3);
  b.declare_synchronising();
  b.set_activation({activation_policy::majority, 99});
  b.set_name("second name");
  const schedule_ptr made = compiled(b);
  EXPECT_EQ(made->name(), "second name");
  EXPECT_EQ(made->place(), (world{2, 5}));
  EXPECT_EQ(made->buffers()[0], (buffer{buffer_role::input, memory_space::host, dtype::f64, 3}));
  EXPECT_TRUE(made->is_synchronising());
  EXPECT_TRUE(made->is_partial());
  EXPECT_EQ(made->starts(), (activation{activation_policy::majority, 99}));
}

// --- in place ----------------------------------------------------------------------------------------------

/// A receive into buffer `s`, followed by the reduction y = x + s. By default, the reduction reads the payload in
/// place. Most other settings violate a condition for reading in place.
struct landing {
  buffer_role role = buffer_role::scratch;
  bool earlier_writer = false, later_writer = false, second_reader = false, reads_twice = false, writes_back = false;
  bool sends_on = false, waits_for_any = false, is_direct = true;
  std::uint64_t lands_at = 0, offset = 0, count = 4;
};

schedule_ptr land(const landing& how) {
  builder b({1, 3});
  const buffer_id x = b.input(dtype::f32, 8), y = b.output(dtype::f32, 8);
  const buffer_id s = b.declare(how.role, dtype::f32, 8);
  const region theirs{s, how.offset}, mine = how.reads_twice ? theirs : region{x, 0};
  const region target = how.writes_back ? theirs : region{y, 0};
  if (how.earlier_writer) b.recv(2, 2, {s, 4}, 4);
  const op_id in = b.recv(0, 0, {s, how.lands_at}, 4);
  const op_id other = b.nop();
  const op_id via = how.is_direct ? in : b.nop({in});
  const op_id last = how.sends_on ? b.send(2, 0, theirs, how.count, {via, other})
                                  : b.reduce(kernel::sum, mine, theirs, target, how.count, {via, other});
  if (how.waits_for_any) b.any(last);
  if (how.later_writer) b.recv(2, 1, {s, 4}, 4, {last});
  if (how.second_reader) b.send(2, 1, {s, 4}, 4, {last});
  return compiled(b);
}

bool stays(const schedule& program) {
  const auto all = program.ops();
  return std::any_of(all.begin(), all.end(),
                     [](const op& it) { return it.in_place || it.releases_a != k_no_op || it.releases_b != k_no_op; });
}

TEST(in_place, a_payload_stays_when_one_compute_is_all_that_ever_reads_it) {
  const schedule_ptr made = land({});
  EXPECT_TRUE(made->ops()[0].in_place);
  EXPECT_EQ(made->ops()[2].releases_a, k_no_op);
  EXPECT_EQ(made->ops()[2].releases_b, 0u);
}

TEST(in_place, the_target_must_be_scratch) { EXPECT_FALSE(stays(*land({.role = buffer_role::output}))); }
TEST(in_place, no_second_op_may_write_the_buffer) {
  EXPECT_FALSE(stays(*land({.earlier_writer = true})));
  EXPECT_FALSE(stays(*land({.later_writer = true})));
}
TEST(in_place, nothing_but_computes_may_read_the_buffer) { EXPECT_FALSE(stays(*land({.second_reader = true}))); }
TEST(in_place, the_compute_may_not_read_it_twice) { EXPECT_FALSE(stays(*land({.reads_twice = true}))); }
TEST(in_place, the_compute_may_not_write_it) { EXPECT_FALSE(stays(*land({.writes_back = true}))); }
TEST(in_place, the_reader_must_be_a_compute) { EXPECT_FALSE(stays(*land({.sends_on = true}))); }
TEST(in_place, the_compute_must_wait_for_all) { EXPECT_FALSE(stays(*land({.waits_for_any = true}))); }
TEST(in_place, the_compute_must_wait_for_the_receive_itself) { EXPECT_FALSE(stays(*land({.is_direct = false}))); }
TEST(in_place, the_compute_must_read_within_what_came) { EXPECT_FALSE(stays(*land({.offset = 2}))); }
TEST(in_place, the_payload_must_land_at_the_start_of_its_buffer) {
  EXPECT_FALSE(stays(*land({.lands_at = 2, .offset = 2})));
}
TEST(in_place, the_compute_may_read_a_part_of_it) {
  EXPECT_TRUE(stays(*land({.count = 3})));
  EXPECT_TRUE(stays(*land({.offset = 2, .count = 2})));
}

/// Returns a schedule in which several compute ops (their number is `readers`) read a payload one after the other. If
/// `is_direct` is set, each of these ops has a dep on the receive. Otherwise only the first has such a dep.
schedule_ptr land_for(std::size_t readers, bool is_direct) {
  bench b;
  const op_id in = b.recv(0, 0, {b.s, 0}, b.four);
  op_id last = k_no_op;
  for (std::size_t i = 0; i < readers; ++i) {
    const op_id next = b.reduce(kernel::sum, {b.x, 0}, {b.s, i}, {b.y, 0}, 4 - i);
    b.dep(last, next);
    if (is_direct || i == 0) b.dep(in, next);
    last = next;
  }
  return compiled(b);
}

TEST(in_place, several_computes_may_read_it_if_all_of_them_wait_for_it) {
  const schedule_ptr made = land_for(3, true);
  EXPECT_TRUE(made->ops()[0].in_place);
  for (op_id reader = 1; reader <= 3; ++reader) EXPECT_EQ(made->ops()[reader].releases_b, 0u);
  EXPECT_FALSE(stays(*land_for(3, false)));
}

TEST(in_place, a_buffer_that_somebody_else_fills_is_no_landing_place) {
  bench b;
  const op_id in = b.recv(0, 0, {b.y, 0}, b.four);
  const op_id filled = b.copy({b.x, 0}, {b.s, 0}, b.four, {in});
  b.reduce(kernel::sum, {b.s, 0}, {b.x, 0}, {b.y, 0}, b.four, {filled});
  EXPECT_FALSE(stays(*compiled(b)));
}

TEST(in_place, both_operands_may_stay_and_are_released_by_their_final_numbers) {
  bench b;
  const buffer_id t = b.scratch(dtype::f32, 4);
  const op_id sum = b.reduce(kernel::sum, {t, 0}, {b.s, 0}, {b.y, 0}, b.four);
  b.dep(b.recv(0, 0, {b.s, 0}, b.four), sum);
  b.dep(b.recv(2, 0, {t, 0}, b.four), sum);
  const schedule_ptr made = compiled(b);
  ASSERT_EQ(made->ops()[2].kind, op_kind::compute);
  EXPECT_EQ(made->ops()[2].releases_a, 1u);
  EXPECT_EQ(made->ops()[2].releases_b, 0u);
  EXPECT_TRUE(made->ops()[0].in_place && made->ops()[1].in_place);
}

TEST(in_place, a_copy_of_a_list_takes_the_payload_from_where_it_is) {
  bench b;
  const buffer_id in = b.lists(buffer_role::scratch, dtype::f32, 1, {.room = 4});
  const buffer_id out = b.lists(buffer_role::scratch, dtype::f32, 1, {.room = 4});
  b.copy({in, 0}, {out, 0}, 1, {b.recv(0, 0, {in, 0}, 1)});
  const schedule_ptr made = compiled(b);
  EXPECT_TRUE(made->ops()[0].in_place);
  EXPECT_EQ(made->ops()[1].releases_a, 0u);
}

TEST(in_place, a_payload_that_may_be_left_out_does_not_stay) {
  bench b;
  const op_id got = b.recv(0, 0, {b.s, 0}, b.four);
  b.copy({b.s, 0}, {b.y, 0}, b.four, {got});
  b.set_guard(got, {.every = 2});
  b.declare_synchronising();
  EXPECT_FALSE(compiled(b)->ops()[0].in_place);
}

// --- text forms --------------------------------------------------------------------------------------------

/// Returns the schedule whose text is testing::k_sampler.
schedule_ptr sampler() {
  builder b({1, 3}, "a \"tiny\" \\one\n");
  const buffer_id x = b.input(dtype::f32, 4), y = b.output(dtype::f32, 4), s = b.scratch(dtype::f32, 4);
  const std::uint64_t four = 4, some = 2;
  b.scratch(dtype::u8, 5);
  const op_id call = b.call(), woken = b.signal_recv(0, 1), wake = b.nop({call, woken});
  b.any(wake);
  b.signal_send(2, 1, {wake});
  const op_id mine = b.capture(kernel::max, {x, 0}, four, {wake}), theirs = b.recv(0, 7, {s, 0}, four);
  const op_id sum = b.reduce(kernel::sum, {s, 0}, {x, 0}, {y, 0}, four, {mine, theirs});
  const op_id kept = b.copy({y, 0}, {y, 2}, some, {sum});
  b.set_exit(b.send(2, 8, {y, 2}, some, {kept}));
  b.declare_synchronising();
  b.set_activation({activation_policy::solo, 5});
  return compiled(b);
}

TEST(to_text, is_this_for_one_op_of_each_kind) { EXPECT_EQ(to_text(*sampler()), testing::k_sampler); }

TEST(to_text, is_this_for_an_empty_schedule) {
  EXPECT_EQ(to_text(*compiled(builder({0, 1}))),
            "libsched schedule 3\nname \"\"\nrank 0 of 1\nflags\nactivation none seed 0\n"
            "sizes buffers 0 guards 0 ops 1 deps 0\nop 0 nop need 0\nexit 0\n");
}

TEST(to_dot, is_this_for_a_quorum_of_two) {
  builder b({1, 3}, "wake");
  const buffer_id s = b.scratch(dtype::f32, 4);
  const op_id in = b.recv(0, 0, {s, 0}, 4), call = b.call();
  b.any(b.send(2, 0, {s, 0}, 4, {in, call}));
  EXPECT_EQ(to_dot(*compiled(b)), R"(digraph schedule {
  label="wake rank 1 of 3";
  node [shape=box, style="filled", fontname="sans-serif"];
  o0 [label="0: recv from 0\nb0[0 +4]", fillcolor="#93c47d"];
  o1 [label="1: signal_recv from 1", fillcolor="#d9ead3"];
  o2 [label="2: send to 2\nb0[0 +4]\nneeds 1 of 2", fillcolor="#6fa8dc", style="filled,dashed", peripheries=2];
  o0 -> o2;
  o1 -> o2;
}
)");
}

TEST(to_dot, colours_each_kind_of_op_as_documented) {
  const std::string dot = to_dot(*sampler());
  for (const std::string_view node :
       {"2: nop\\nneeds 1 of 2\", fillcolor=\"white\"", "3: signal_send to 2\", fillcolor=\"#cfe2f3\"",
        "4: capture max\\nb0[0 +4]\", fillcolor=\"#ffe599\"",
        "6: compute sum\\nb2[0 +4]\\nb0[0 +4]\\nb1[0 +4]\", fillcolor=\"#f6b26b\""})
    EXPECT_NE(dot.find(node), std::string::npos) << node << " not in\n" << dot;
}

TEST(schedule, answers_the_most_and_the_typical_bytes_of_an_op) {
  const schedule_ptr made = sampler();
  EXPECT_EQ(most_bytes(*made, made->ops()[6]), 16u);
  EXPECT_EQ(most_bytes(*made, made->ops()[7]), 8u);
  EXPECT_EQ(most_bytes(*made, made->ops()[2]), 0u);
  EXPECT_EQ(typical_bytes(*made, made->ops()[6]), 16u);
  builder b({1, 3});
  const buffer_id lists = b.lists(buffer_role::scratch, dtype::f32, 4, {.room = 5, .total = 11, .typical = 2});
  b.send(0, 0, {lists, 0}, 2);
  b.send(0, 1, {lists, 0}, 4);
  const schedule_ptr with_lists = compiled(b);
  EXPECT_EQ(most_bytes(*with_lists, with_lists->ops()[0]), 40u);
  EXPECT_EQ(most_bytes(*with_lists, with_lists->ops()[1]), 44u);
  EXPECT_EQ(typical_bytes(*with_lists, with_lists->ops()[1]), 32u);
}

TEST(to_text, says_what_lists_and_guards_there_are) {
  builder b({1, 3}, "lists");
  const buffer_id apart = b.lists(buffer_role::scratch, dtype::f32, 2, {.room = 5, .typical = 1});
  const buffer_id packed = b.lists(buffer_role::scratch, dtype::f32, 2, {.room = 5, .total = 9});
  const buffer_id lengths = b.scratch(dtype::u64, 2);
  const op_id got = b.recv(0, 0, {apart, 0}, 1);
  const op_id measured = b.measure({apart, 0}, {lengths, 0}, 1, {got});
  const op_id ready = b.lay_out({lengths, 0}, packed, {measured});
  b.set_guard(b.send(2, 0, {packed, 0}, 2, {ready}), {.every = 4, .skips_empty = true});
  b.set_guard(measured, {.every = 2});
  b.declare_synchronising();
  EXPECT_EQ(to_text(*compiled(b)), R"(libsched schedule 3
name "lists"
rank 1 of 3
flags synchronising
activation none seed 0
sizes buffers 3 guards 2 ops 4 deps 3
buffer 0 scratch host f32 2 lists 5 typical 1
buffer 1 scratch host f32 2 lists 5 packed 9 typical 0
buffer 2 scratch host u64 2
guard 1 every 2
guard 2 every 4 skips_empty
op 0 recv f32 b0[0 +1] from 0 tag 0 in_place need 0 then 1
op 1 compute u64 b2[0 +1] = measure f32 b0[0 +1] releases_a 0 guard 1 need 1 then 2
op 2 compute f32 b1[0 +2] = lay_out b2[0 +2] need 1 then 3
op 3 send f32 b1[0 +2] to 2 tag 0 guard 2 need 1
exit 3
)");
}

TEST(schedule, counts_its_buffers_by_role) {
  bench b;
  b.scratch(dtype::u8, 1);
  const schedule_ptr made = compiled(b);
  EXPECT_EQ(count_of(*made, buffer_role::input), 1u);
  EXPECT_EQ(count_of(*made, buffer_role::output), 1u);
  EXPECT_EQ(count_of(*made, buffer_role::scratch), 2u);
}

TEST(schedule, names_each_role_and_policy) {
  EXPECT_EQ(name_of(buffer_role::input), "input");
  EXPECT_EQ(name_of(buffer_role::output), "output");
  EXPECT_EQ(name_of(buffer_role::scratch), "scratch");
  EXPECT_EQ(name_of(activation_policy::none), "none");
  EXPECT_EQ(name_of(activation_policy::full), "full");
  EXPECT_EQ(name_of(activation_policy::solo), "solo");
  EXPECT_EQ(name_of(activation_policy::majority), "majority");
}

/// Returns the parts of a schedule: three ops with the deps 0 -> 2 and 1 -> 2, two buffers, and a guard. The first
/// buffer contains lists.
schedule::parts small_parts() {
  const op in{.kind = op_kind::recv, .type = dtype::f32, .peer = 2, .tag = 3, .count = 4, .c = {0, 0}};
  const op sum{.kind = op_kind::compute,
               .what = kernel::sum,
               .type = dtype::f32,
               .need = 2,
               .count = 4,
               .a = {0, 0},
               .b = {1, 0},
               .c = {1, 0}};
  return {.name = "small",
          .place = {1, 4},
          .ops = {in, op{}, sum},
          .first = {0, 1, 2, 2},
          .next = {2, 2},
          .roots = {0, 1},
          .buffers = {{buffer_role::scratch, memory_space::host, dtype::f32, 8, {.room = 7, .total = 9, .typical = 3}},
                      {buffer_role::output, memory_space::host, dtype::f32, 8}},
          .guards = {{.every = 2}},
          .exit = 2};
}

using change = std::function<void(schedule::parts&)>;
using parts = schedule::parts;

/// Changes that affect execution. Each change modifies one part of the schedule.
const std::map<std::string, change> k_changes{
    {"self", [](parts& p) { p.place.self = 0; }},
    {"size", [](parts& p) { p.place.size = 5; }},
    {"exit", [](parts& p) { p.exit = 1; }},
    {"synchronising", [](parts& p) { p.synchronising = true; }},
    {"holding", [](parts& p) { p.holding = true; }},
    {"policy", [](parts& p) { p.starts.policy = activation_policy::solo; }},
    {"seed", [](parts& p) { p.starts.seed = 1; }},
    {"buffer role", [](parts& p) { p.buffers[0].role = buffer_role::input; }},
    {"buffer space", [](parts& p) { p.buffers[0].space = memory_space::device; }},
    {"buffer type", [](parts& p) { p.buffers[0].type = dtype::f64; }},
    {"buffer count", [](parts& p) { p.buffers[0].count = 9; }},
    {"buffers", [](parts& p) { p.buffers.emplace_back(); }},
    {"list room", [](parts& p) { p.buffers[0].lists.room = 6; }},
    {"list total", [](parts& p) { p.buffers[0].lists.total = 8; }},
    {"list typical", [](parts& p) { p.buffers[0].lists.typical = 4; }},
    {"guard period", [](parts& p) { p.guards[0].every = 3; }},
    {"guard of empty lists", [](parts& p) { p.guards[0].skips_empty = true; }},
    {"guards", [](parts& p) { p.guards.resize(2, p.guards[0]); }},
    {"guard", [](parts& p) { p.ops[0].guard = 1; }},
    {"one dep more", [](parts& p) { p.next.push_back(3), ++p.first[3]; }},
    {"one dep less", [](parts& p) { p.next.pop_back(), --p.first[2], --p.first[3]; }},
    {"where a dep starts", [](parts& p) { ++p.first[1]; }},
    {"where a dep ends", [](parts& p) { p.next[0] = 1; }},
    {"ops", [](parts& p) { p.ops.emplace_back(), p.first.push_back(2); }},
    {"kind", [](parts& p) { p.ops[0].kind = op_kind::capture; }},
    {"kernel", [](parts& p) { p.ops[2].what = kernel::max; }},
    {"type", [](parts& p) { p.ops[0].type = dtype::i32; }},
    {"in_place", [](parts& p) { p.ops[0].in_place = true; }},
    {"peer", [](parts& p) { p.ops[0].peer = 0; }},
    {"need", [](parts& p) { p.ops[2].need = 1; }},
    {"tag", [](parts& p) { p.ops[0].tag = 4; }},
    {"count", [](parts& p) { p.ops[0].count = 0; }},
    {"a", [](parts& p) { p.ops[2].a = region(0, 1); }},
    {"b", [](parts& p) { p.ops[2].b = region(0, 0); }},
    {"c", [](parts& p) { p.ops[0].c = region(0, 4); }},
    {"releases_a", [](parts& p) { p.ops[2].releases_a = 0; }},
    {"releases_b", [](parts& p) { p.ops[2].releases_b = 0; }},
};

TEST(to_text, differs_when_any_part_differs) {
  std::map<std::string, std::string> seen{{to_text(schedule(small_parts())), "nothing"}};
  auto changes = k_changes;
  changes.emplace("name", [](parts& p) { p.name = "other"; });
  for (const auto& [what, alter] : changes) {
    schedule::parts altered = small_parts();
    alter(altered);
    const auto [at, is_new] = seen.emplace(to_text(schedule(altered)), what);
    EXPECT_TRUE(is_new) << what << " reads like " << at->second;
  }
}

}  // namespace
}  // namespace lsched
