#include "collectives/promise.h"
#include "collectives/requests/sample_requests.h"

#include <gtest/gtest.h>

#include <functional>

#include "libsched/schedule/schedule_file.h"
#include "libsched/verify/verify.h"
#include "tests/support/generators.h"
#include "tests/support/symbolic_world.h"

namespace lsched::testing {
namespace {

constexpr shape k_most{.count = 6, .type = dtype::i32, .what = kernel::max};

std::vector<schedule_ptr> world_named(const std::string& name) {
  return whole_world(3, [&](world place) {
    builder to(place, name);
    to.reduce(kernel::sum, {to.input(dtype::f32, 4), 0}, {to.scratch(dtype::f32, 4), 0}, {to.output(dtype::f32, 4), 0},
              4);
    return to.compile();
  });
}

TEST(promise, a_registered_world_is_held_against_its_own_algorithm) {
  for (const algorithm& it : algorithms()) {
    const activation starts{it.of->activates ? activation_policy::solo : activation_policy::none, 1};
    const dtype type = it.of->adapts ? dtype::f32 : k_most.type;
    const shape data = typical_shape(*it.of, 5, k_most.count, type, k_most.what);
    const auto world = *generate_world(it, 5, data, starts);
    const auto promise = promise_for(world, {});
    ASSERT_TRUE(promise);
    if (it.of->has_blocks || it.of->adapts) {
      EXPECT_EQ(promise->of, nullptr);
      continue;
    }
    EXPECT_EQ(promise->of, it.of);
    EXPECT_EQ(promise->by, &it);
    EXPECT_EQ(promise->what.round_cost, cost_of_round(it, 5, data, starts));
    EXPECT_TRUE(verify(world, promise->what).holds());
  }
}

TEST(promise, a_partial_collective_needs_an_activation) {
  for (const auto& [name, wanted] : {std::pair("partial_allreduce/tree", ""), {"mine", "partial_allreduce"}})
    EXPECT_FALSE(promise_for(world_named(name), {.collective = wanted})) << name;
}

TEST(promise, an_unknown_algorithm_keeps_its_collectives_contents_at_any_cost) {
  for (const char* name : {"allreduce/mine", "allreduce", "allreduce/"}) {
    const auto promise = promise_for(world_named(name), {});
    ASSERT_TRUE(promise);
    EXPECT_EQ(promise->of, &k_allreduce);
    EXPECT_FALSE(promise->by != nullptr || promise->what.round_cost);
    ASSERT_EQ(promise->what.ranges.size(), 3u);
    EXPECT_EQ(promise->what.ranges[2].end, 4u);
    EXPECT_EQ(promise->what.ranges[2].how, kernel::sum);
  }
}

TEST(promise, other_names_promise_nothing_unless_told_what) {
  for (const char* name : {"telepathy", "", "/", "telepathy/tree"}) {
    const auto world = world_named(name);
    EXPECT_EQ(promise_for(world, {})->by, nullptr) << name;
    EXPECT_TRUE(promise_for(world, {})->what.ranges.empty());
    EXPECT_EQ(promise_for(world, {.collective = "allreduce"})->what.ranges.size(), 3u);
  }
}

TEST(promise, the_kernel_is_that_of_the_first_rank_that_combines_anything) {
  const auto chain = whole_world(3, [](world place) {
    builder to(place, "chain");
    const buffer_id in = to.input(dtype::i64, 4), got = to.scratch(dtype::i64, 4), out = to.output(dtype::i64, 4);
    if (place.self < 2)
      to.copy({in, 0}, {out, 0}, 4);
    else
      to.reduce(kernel::min, {in, 0}, {got, 0}, {out, 0}, 4);
    return to.compile();
  });
  EXPECT_EQ(promise_for(chain, {.collective = "allreduce"})->what.ranges[0].how, kernel::min);
}

TEST(promise, is_of_what_the_caller_asked) {
  const auto world = world_named("mine");
  const auto promise =
      promise_for(world, {.collective = "reduce", .what = kernel::max, .type = dtype::i64, .count = 7, .root = 2});
  ASSERT_TRUE(promise);
  ASSERT_EQ(promise->what.ranges.size(), 1u);
  EXPECT_EQ(promise->what.ranges[0].holder, 2);
  EXPECT_EQ(promise->what.ranges[0].end, 7u);
  EXPECT_EQ(promise->what.ranges[0].how, kernel::max);
  EXPECT_EQ(promise->what.data->type, dtype::i64);
  EXPECT_EQ(words_for(*promise), "reduce of max of 7 x i64, root 2");
  for (const asked& wrong : {asked{.collective = "allreduce", .root = 0},
                             {.collective = "reduce", .root = 3},
                             {.collective = "reduce", .root = -1},
                             {.collective = "bcast", .what = kernel::sum},
                             {.collective = "barrier", .type = dtype::f32},
                             {.collective = "barrier", .count = 0},
                             {.collective = "gatherv", .count = 4},
                             {.collective = "allreduce", .what = kernel::band, .type = dtype::f32},
                             {.collective = "allreduce", .what = kernel::land},
                             {.what = kernel::sum}})
    EXPECT_EQ(promise_for(world, wrong).error().code, status::argument) << wrong.collective;
}

/// A partial schedule does not meet the postcondition of an ordinary collective, because its rounds leave out ranks
/// that did not call.
TEST(promise, partial_schedules_are_no_ordinary_collective) {
  const algorithm& how = *find("partial_allreduce", "tree");
  const shape data{.count = 4, .type = dtype::f32, .what = kernel::sum};
  const auto world = *generate_world(how, 3, data, {activation_policy::solo, 1});
  EXPECT_EQ(promise_for(world, {.collective = "allreduce"}).error().code, status::argument);
  EXPECT_TRUE(promise_for(world, {.collective = "partial_allreduce"}));
}

TEST(promise, a_collective_that_does_not_exist_is_refused_with_those_that_do) {
  const auto promise = promise_for(world_named("allreduce/tree"), {.collective = "telepathy"});
  ASSERT_FALSE(promise);
  EXPECT_EQ(promise.error().code, status::argument);
  EXPECT_NE(promise.error().text.find("\"telepathy\""), std::string::npos) << promise.error().text;
  EXPECT_NE(promise.error().text.find("\"partial_allreduce\""), std::string::npos) << promise.error().text;
}

// --- worlds as text ----------------------------------------------------------------------------------------

struct heading {
  std::string name = "allreduce";
  std::string flags = "";
  std::string activation = "none seed 0";
};

/// Parses the schedules of a world. `body[r]` holds the buffers and ops of rank r.
std::vector<schedule_ptr> read_world(const std::vector<std::string>& body, const heading& of) {
  std::string text;
  for (std::size_t r = 0; r < body.size(); ++r)
    text += "libsched schedule 2\nname \"" + of.name + "\"\nrank " + std::to_string(r) + " of " +
            std::to_string(body.size()) + "\nflags " + of.flags + "\nactivation " + of.activation + "\n" + body[r];
  auto world = parse_world(text);
  EXPECT_TRUE(world) << world.error().text << "\n" << text;
  return world ? *std::move(world) : std::vector<schedule_ptr>();
}

/// Verifies the world. Returns the findings, each on one line.
std::string findings_of(const std::vector<schedule_ptr>& world, std::string_view collective = {}) {
  std::string text;
  const verification answer = verify(world, promise_for(world, {.collective = collective})->what);
  for (const finding& it : answer.findings) text.append(name_of(it.what)).append(": ").append(it.text).append("\n");
  return text;
}

void expect_words(const std::string& found, const std::string& words) {
  EXPECT_NE(found.find(words), std::string::npos) << "not \"" << words << "\" but:\n" << found;
}

std::string buffers(int input, int output) {
  return "buffer 0 input host i64 " + std::to_string(input) + "\nbuffer 1 output host i64 " + std::to_string(output) +
         "\nbuffer 2 scratch host i64 " + std::to_string(input) + "\n";
}

/// Returns the ops of rank `self` of two ranks. The ranks exchange `count` elements, and each rank adds the two
/// contributions in rank order.
std::string exchange(int self, int count) {
  const std::string other = std::to_string(1 - self), part = "[0 +" + std::to_string(count) + "]";
  return "op 0 send i64 b0" + part + " to " + other + " tag 1 then 3\nop 1 recv i64 b2" + part + " from " + other +
         " tag 1 then 2\nop 2 compute i64 b1" + part + " = sum " +
         (self == 0 ? "b0" + part + " b2" + part : "b2" + part + " b0" + part) + " then 3\nop 3 nop\nexit 3\n";
}

const std::string k_nop = "op 0 nop\nexit 0\n";

TEST(promise, every_rank_has_the_data_that_is_promised) {
  EXPECT_EQ(findings_of(read_world({buffers(6, 6) + exchange(0, 6), buffers(6, 6) + exchange(1, 6)}, {})), "");
  expect_words(findings_of(read_world({buffers(1, 1) + exchange(0, 1), buffers(6, 6) + exchange(1, 1)}, {})),
               "form: rank 1 has 6 x i64 as its input, but 1 x i64 are promised for every rank");
  expect_words(findings_of(read_world({buffers(0, 0) + k_nop, buffers(6, 6) + k_nop}, {})),
               "form: rank 1 has 6 x i64 as its output, but 0 x i64 are promised for every rank");
  expect_words(findings_of(read_world({"buffer 0 output host i64 6\n" + k_nop, buffers(6, 6) + k_nop}, {})),
               "form: rank 0 has no input, but 6 x i64 are promised for every rank");
  const std::string longer = buffers(3, 6) + "op 0 compute i64 b1[0 +3] = copy b0[0 +3]\nexit 0\n";
  expect_words(findings_of(read_world({longer}, {})),
               "form: rank 0 has 6 x i64 as its output, but 3 x i64 are promised for every rank");
  expect_words(findings_of(read_world({buffers(1, 1) + exchange(0, 1), buffers(6, 6) + exchange(1, 1)},
                                      {.name = "allreduce/recursive_doubling"})),
               "form: rank 1 has 6 x i64 as its input");
}

TEST(promise, a_barrier_lets_nobody_go_before_all_have_come) {
  const std::string why =
      "synchronising: rank 0 may end its round before rank 1 has entered the round, but the collective must be "
      "synchronising";
  expect_words(findings_of(read_world({k_nop, k_nop}, {.name = "barrier"})), why);
  expect_words(findings_of(read_world({k_nop, k_nop}, {.name = "mine"}), "barrier"), why);
  const auto tell = [](int other) {
    return "op 0 signal_send to " + std::to_string(other) + " tag 1 then 2\nop 1 signal_recv from " +
           std::to_string(other) + " tag 1 then 2\nop 2 nop\nexit 2\n";
  };
  EXPECT_EQ(findings_of(read_world({tell(1), tell(0)}, {.name = "barrier"})), "");
}

// --- operands in any order ---------------------------------------------------------------------------------

/// Returns the ops of rank `self` in an allreduce over a ring of three ranks. Each message has two elements. The ring
/// first forwards partial sums, and then results.
std::string ring(int self) {
  const auto part = [&](int step) { return std::to_string((self - step + 6) % 3 * 2) + " +2]"; };
  const std::string next = std::to_string((self + 1) % 3), last = std::to_string((self + 2) % 3);
  std::string text = buffers(6, 6) + "op 0 compute i64 b1[0 +6] = copy b0[0 +6] then 1 3 11\n";
  const auto add = [&](int step, int first, const std::string& then) {
    const std::string tag = std::to_string(step), id = std::to_string(first + 1), sum = std::to_string(first + 2);
    text += "op " + std::to_string(first) + " send i64 b1[" + part(step) + " to " + next + " tag " + tag + " then " +
            sum + " 11\nop " + id + " recv i64 b2[" + part(step + 1) + " from " + last + " tag " + tag + " then " +
            sum + " 11\nop " + sum + " compute i64 b1[" + part(step + 1) + " = sum b2[" + part(step + 1) + " b1[" +
            part(step + 1) + " then " + then + " 11\n";
  };
  add(0, 1, "4 6");
  add(1, 4, "7 8 10");
  return text + "op 7 send i64 b1[" + part(2) + " to " + next + " tag 10 then 11\nop 8 recv i64 b1[" + part(0) +
         " from " + last + " tag 10 then 9 11\nop 9 send i64 b1[" + part(0) + " to " + next +
         " tag 11 then 11\nop 10 recv i64 b1[" + part(1) + " from " + last + " tag 11 then 11\nop 11 nop\nexit 11\n";
}

TEST(promise, operands_come_in_any_order_where_nothing_but_the_contents_is_promised) {
  EXPECT_EQ(findings_of(read_world({ring(0), ring(1), ring(2)}, {})), "");
  EXPECT_EQ(findings_of(read_world({ring(0), ring(1), ring(2)}, {.name = "mine"}), "allreduce"), "");
  expect_words(findings_of(read_world({ring(0), ring(1), ring(2)}, {.name = "allreduce/tree"})),
               "expression: rank 0 output 0 elements [2, 4): an operand of a higher rank comes before");
  const std::string gives = buffers(6, 6) +
                            "op 0 send i64 b0[0 +6] to 1 tag 1 then 2\n"
                            "op 1 recv i64 b1[0 +6] from 1 tag 2 then 2\nop 2 nop\nexit 2\n";
  const std::string adds = buffers(6, 6) +
                           "op 0 recv i64 b2[0 +6] from 0 tag 1 then 1\n"
                           "op 1 compute i64 b1[0 +6] = sum b0[0 +6] b2[0 +6] then 2\n"
                           "op 2 send i64 b1[0 +6] to 0 tag 2\nexit 2\n";
  EXPECT_EQ(findings_of(read_world({gives, adds}, {})), "");
}

// --- partial rounds ----------------------------------------------------------------------------------------

/// Returns the ops of rank `self` in a partial allreduce of two ranks. `start` holds ops 0 to 2, which start the round
/// on this rank. Op 3 takes (captures) the rank's pending contribution, which the ranks then exchange.
std::string partial(int self, const std::string& start, const std::string& merge = "sum") {
  const std::string other = std::to_string(1 - self);
  return buffers(6, 6) + start + "op 3 capture i64 b0[0 +6] merge " + merge +
         " need 1 then 4 5 6\n"
         "op 4 send i64 b0[0 +6] to " +
         other + " tag 1 then 7\nop 5 recv i64 b2[0 +6] from " + other +
         " tag 1 then 6\nop 6 compute i64 b1[0 +6] = sum " + (self == 0 ? "b0[0 +6] b2[0 +6]" : "b2[0 +6] b0[0 +6]") +
         " then 7\nop 7 nop\nexit 7\n";
}

std::string call(int self, const std::string& then) {
  return "op 0 signal_recv from " + std::to_string(self) + " tag 0" + then + "\n";
}

/// Returns ops 0 to 2 of a partial schedule in which a call of either rank starts the round on both ranks.
std::string woken(int self) {
  const std::string other = std::to_string(1 - self);
  return call(self, " then 2 3") + "op 1 signal_recv from " + other + " tag 0 then 3\nop 2 signal_send to " + other +
         " tag 0\n";
}

std::string wake_findings(const std::function<std::string(int self)>& body, const std::string& name = "mine",
                          const std::string& policy = "solo seed 1") {
  return findings_of(read_world({body(0), body(1)}, {name, "synchronising", policy}));
}

TEST(promise, nobody_wakes_if_nobody_calls) {
  EXPECT_EQ(wake_findings([](int self) { return partial(self, woken(self)); }), "");
  expect_words(
      wake_findings([](int self) { return partial(self, call(self, " then 2 3") + "op 1 nop then 3\nop 2 nop\n"); }),
      "activation: rank 0 op 3 (capture) fires although no rank calls");
  expect_words(wake_findings([](int self) {
                 const std::string other = std::to_string(1 - self);
                 return partial(self, call(self, " then 3") + "op 1 signal_recv from " + other +
                                          " tag 0 then 3\nop 2 signal_send to " + other + " tag 0\n");
               }),
               "activation: rank 0 op 2 (signal_send to 1) fires although no rank calls");
  expect_words(wake_findings([](int self) {
                 std::string text = partial(self, call(self, "") + "op 1 nop\nop 2 nop\n");
                 return text.erase(text.find(" need 1"), 7);
               }),
               "activation: rank 0 op 3 (capture) fires although no rank calls");
}

TEST(promise, a_call_wakes_the_others_with_one_signal_each) {
  const auto told_twice = [](int self) {
    const std::string other = std::to_string(1 - self);
    std::string text = partial(self, woken(self));
    text.replace(text.find("then 2 3"), 8, "then 2 3 8");
    return text.replace(
        text.find("op 7 nop\nexit 7\n"), 16,
        "op 7 nop\nop 8 signal_send to " + other + " tag 9\nop 9 signal_recv from " + other + " tag 9\nexit 7\n");
  };
  expect_words(wake_findings(told_twice, "partial_allreduce"),
               "activation: a call of rank 0 alone takes 2 signals, not 1");
  EXPECT_EQ(wake_findings([](int self) { return partial(self, woken(self)); }, "partial_allreduce"), "");
}

TEST(promise, what_a_rank_captures_is_merged_by_the_promised_kernel) {
  for (const char* name : {"partial_allreduce", "partial_allreduce/recursive_doubling"})
    expect_words(wake_findings([](int self) { return partial(self, woken(self), self == 0 ? "sum" : "prod"); }, name),
                 "contents: rank 0 output 0 elements [0, 6): is combined by another kernel than sum");
}

}  // namespace
}  // namespace lsched::testing
