// Tests of proofs through lsched.h. Correct worlds must be proved. A planted fault must cause the right kind of
// finding. Bad arguments must be refused.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "bindings/c/lsched.h"

namespace {

// --- worlds as text ----------------------------------------------------------------------------------------

struct header {
  std::string name = "allreduce/recursive_doubling";
  std::string flags = "synchronising holding";
  std::string activation = "none seed 0";
};

std::string with_header(int self, const header& of, const std::string& body) {
  return "libsched schedule 2\nname \"" + of.name + "\"\nrank " + std::to_string(self) + " of 2\nflags " + of.flags +
         "\nactivation " + of.activation + "\n" + body;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto place = text.find(from);
  EXPECT_NE(place, std::string::npos) << from << " is not in\n" << text;
  return place == std::string::npos ? text : text.replace(place, from.size(), to);
}

/// Returns the text of the schedule of rank `self`. Both ranks exchange inputs of 6 elements and compute the sum.
std::string exchange(int self) {
  const std::string other = std::to_string(1 - self);
  const std::string operands = self == 0 ? "b0[0 +6] b2[0 +6]" : "b2[0 +6] b0[0 +6]";
  return "buffer 0 input host f32 6\nbuffer 1 output host f32 6\nbuffer 2 scratch host f32 6\n"
         "op 0 send f32 b0[0 +6] to " +
         other +
         " tag 1 then 3\n"
         "op 1 recv f32 b2[0 +6] from " +
         other +
         " tag 1 then 2\n"
         "op 2 compute f32 b1[0 +6] = sum " +
         operands +
         " then 3\n"
         "op 3 nop\nexit 3\n";
}

std::string world_of(const header& of, const std::function<std::string(int self)>& body) {
  return with_header(0, of, body(0)) + with_header(1, of, body(1));
}

/// Returns the text of the exchange. In the text of rank 1, the fault `to` replaces `from`.
std::string slipped(const std::string& from, const std::string& to) {
  return world_of({}, [&](int self) { return self == 0 ? exchange(0) : replaced(exchange(1), from, to); });
}

// --- proofs ------------------------------------------------------------------------------------------------

struct verdict {
  lsched_status status = LSCHED_ERR_INTERNAL;
  lsched_verification figures{};
  std::array<lsched_finding, 4> found{};
  lsched_diagnostic why{.struct_size = sizeof(lsched_diagnostic)};
};

lsched_verify_desc describe(const std::string& text, const char* collective = nullptr) {
  lsched_verify_desc desc{};
  desc.struct_size = sizeof desc;
  desc.text = text.data();
  desc.bytes = text.size();
  desc.collective = collective;
  return desc;
}

lsched_verify_desc describe(const char* collective, int32_t ranks, std::uint64_t count) {
  lsched_verify_desc desc{};
  desc.struct_size = sizeof desc;
  desc.collective = collective;
  desc.ranks = ranks;
  desc.count = count;
  desc.dtype = LSCHED_F32;
  desc.reduction = LSCHED_SUM;
  return desc;
}

verdict empty_verdict() {
  verdict answer;
  answer.figures.struct_size = sizeof answer.figures;
  return answer;
}

verdict ask(const lsched_verify_desc& desc) {
  verdict it = empty_verdict();
  it.status = lsched_verify(&desc, &it.figures, it.found.data(), it.found.size(), &it.why);
  return it;
}

// --- correct worlds ----------------------------------------------------------------------------------------

TEST(c_verify, a_good_world_is_proved_with_its_figures) {
  const std::string text = world_of({}, exchange);
  const verdict it = ask(describe(text));
  ASSERT_EQ(it.status, LSCHED_OK) << it.why.text;
  EXPECT_EQ(it.figures.holds, 1) << it.found[0].text;
  EXPECT_EQ(it.figures.ranks, 2);
  EXPECT_STREQ(it.figures.collective, "allreduce");
  EXPECT_STREQ(it.figures.algorithm, "recursive_doubling");
  EXPECT_TRUE(it.figures.is_synchronising && it.figures.is_eager_safe);
  EXPECT_EQ(it.figures.messages, 2u);
  EXPECT_EQ(it.figures.bytes, 2u * 6 * sizeof(float));
  EXPECT_EQ(it.figures.signals, 0u);
  EXPECT_EQ(it.figures.hops, 1u);
  EXPECT_EQ(it.figures.unexpected_messages, 1u);
  EXPECT_EQ(it.figures.unexpected_bytes, 6 * sizeof(float));
  EXPECT_EQ(it.figures.findings + it.figures.notes, 0u);
}

TEST(c_verify, what_was_promised_is_told) {
  const std::string mine = world_of({.name = "allreduce/mine", .flags = ""}, exchange);
  EXPECT_STREQ(ask(describe(mine)).figures.collective, "allreduce");
  EXPECT_EQ(ask(describe(mine)).figures.algorithm, nullptr);
  const std::string other = world_of({.name = "sum of two", .flags = ""}, exchange);
  EXPECT_EQ(ask(describe(other)).figures.collective, nullptr);
  EXPECT_STREQ(ask(describe(other, "allreduce")).figures.collective, "allreduce");
  EXPECT_EQ(ask(describe(other, "allreduce")).figures.holds, 1);
  EXPECT_EQ(ask(describe(mine)).figures.dtype, LSCHED_F32);
  EXPECT_EQ(ask(describe(mine)).figures.reduction, LSCHED_SUM);
  EXPECT_EQ(ask(describe(mine)).figures.count, 6u);
  EXPECT_EQ(ask(describe(other)).figures.dtype, LSCHED_DTYPE_NONE);
}

/// Both ranks first send two messages, one after the other, and only then receive. The sends end only if the transport
/// buffers messages.
TEST(c_verify, sends_may_count_on_as_many_buffers_as_are_said_to_exist) {
  const auto body = [](int self) {
    const std::string other = std::to_string(1 - self);
    return "buffer 0 input host f32 6\nbuffer 1 scratch host f32 6\nop 0 send f32 b0[0 +3] to " + other +
           " tag 1 then 1\nop 1 send f32 b0[3 +3] to " + other + " tag 2 then 2 3\nop 2 recv f32 b1[0 +3] from " +
           other + " tag 1 then 4\nop 3 recv f32 b1[3 +3] from " + other + " tag 2 then 4\nop 4 nop\nexit 4\n";
  };
  const std::string text = world_of({.name = "mine", .flags = ""}, body);
  const auto answer = [&](std::uint64_t bytes, std::uint32_t slots) {
    lsched_verify_desc desc = describe(text);
    desc.eager_bytes = bytes, desc.slots = slots;
    return ask(desc);
  };
  EXPECT_STREQ(answer(0, 0).found[0].property, "progress");
  EXPECT_EQ(answer(0, 0).figures.is_eager_safe, 1);
  EXPECT_EQ(answer(0, 1).figures.holds, 0);
  EXPECT_EQ(answer(0, 2).figures.holds, 1);
  EXPECT_EQ(answer(11, 0).figures.holds, 0);
  EXPECT_EQ(answer(12, 0).figures.holds, 1);
  EXPECT_EQ(answer(12, 1).figures.holds, 0);
  EXPECT_EQ(answer(12, 2).figures.holds, 1);
}

TEST(c_verify, a_text_is_held_against_what_is_asked) {
  const std::string mine = world_of({.name = "allreduce/mine", .flags = ""}, exchange);
  lsched_verify_desc desc = describe(mine);
  desc.reduction = LSCHED_SUM, desc.dtype = LSCHED_F32, desc.count = 6;
  desc.required = LSCHED_REQUIRE_REDUCTION | LSCHED_REQUIRE_DTYPE | LSCHED_REQUIRE_COUNT | LSCHED_REQUIRE_PROMISE;
  EXPECT_EQ(ask(desc).figures.holds, 1);
  desc.reduction = LSCHED_MAX;
  EXPECT_STREQ(ask(desc).found[0].property, "contents");
  desc.required = LSCHED_REQUIRE_COUNT, desc.count = 5;
  EXPECT_STREQ(ask(desc).found[0].property, "form");
  desc.required = LSCHED_REQUIRE_ROOT;
  EXPECT_EQ(ask(desc).status, LSCHED_ERR_ARGUMENT);
  desc.required = LSCHED_REQUIRE_REDUCTION, desc.reduction = lsched_reduction{};
  EXPECT_EQ(ask(desc).status, LSCHED_ERR_ARGUMENT);
  desc.required = 32;
  EXPECT_EQ(ask(desc).status, LSCHED_ERR_ARGUMENT);
  const std::string other = world_of({.name = "sum of two", .flags = ""}, exchange);
  lsched_verify_desc required = describe(other);
  required.required = LSCHED_REQUIRE_PROMISE;
  EXPECT_EQ(ask(required).status, LSCHED_ERR_ARGUMENT);
  lsched_verify_desc registered = describe("allreduce", 2, 6);
  registered.required = LSCHED_REQUIRE_COUNT;
  EXPECT_EQ(ask(registered).status, LSCHED_ERR_ARGUMENT);
}

TEST(c_verify, every_registered_collective_is_proved) {
  for (const int32_t ranks : {1, 3, 6}) {
    for (const char* algorithm : {static_cast<const char*>(nullptr), "auto", "tree", "recursive_doubling"}) {
      lsched_verify_desc desc = describe("allreduce", ranks, 7);
      desc.algorithm = algorithm;
      desc.in_place = 1;
      const verdict it = ask(desc);
      ASSERT_EQ(it.status, LSCHED_OK) << it.why.text;
      EXPECT_TRUE(it.figures.holds && it.figures.is_synchronising);
      EXPECT_NE(it.figures.algorithm, nullptr);
    }
    lsched_verify_desc partial = describe("partial_allreduce", ranks, 7);
    partial.activation = "solo";
    EXPECT_EQ(ask(partial).figures.holds, 1);
    EXPECT_EQ(ask(partial).figures.signals_of_one, static_cast<std::uint64_t>(ranks) - 1);
    lsched_verify_desc barrier{};
    barrier.struct_size = sizeof barrier;
    barrier.collective = "barrier";
    barrier.ranks = ranks;
    EXPECT_EQ(ask(barrier).figures.holds, 1);
  }
}

TEST(c_verify, a_verdict_needs_no_room_for_findings) {
  const std::string bad = slipped("tag 1", "tag 7");
  const lsched_verify_desc desc = describe(bad);
  verdict it = empty_verdict();
  EXPECT_EQ(lsched_verify(&desc, &it.figures, nullptr, 0, nullptr), LSCHED_OK);
  EXPECT_EQ(it.figures.holds, 0);
  EXPECT_EQ(it.figures.findings, 0u);
}

// --- faulty worlds -----------------------------------------------------------------------------------------

void expect_finding(const std::string& text, const char* property, const std::string& words) {
  const verdict it = ask(describe(text));
  ASSERT_EQ(it.status, LSCHED_OK) << it.why.text;
  EXPECT_EQ(it.figures.holds, 0) << property;
  ASSERT_GE(it.figures.findings, 1u);
  EXPECT_STREQ(it.found[0].property, property);
  EXPECT_NE(std::strstr(it.found[0].text, words.c_str()), nullptr) << it.found[0].text;
}

TEST(c_verify, form) {
  expect_finding(with_header(0, {}, exchange(0)) + with_header(1, {.flags = "holding"}, exchange(1)), "form",
                 "rank 1 declares another activation or synchronisation than rank 0");
}

TEST(c_verify, matching) {
  expect_finding(slipped("to 0 tag 1", "to 0 tag 7"), "matching", "tag 7, has no matching receive");
}

TEST(c_verify, progress) {
  expect_finding(world_of({.flags = ""},
                          [](int self) {
                            const std::string other = std::to_string(1 - self);
                            return "buffer 0 input host f32 6\nbuffer 1 output host f32 6\n"
                                   "op 0 recv f32 b1[0 +6] from " +
                                   other +
                                   " tag 1 then 1\n"
                                   "op 1 send f32 b0[0 +6] to " +
                                   other + " tag 1\nexit 1\n";
                          }),
                 "progress", "which waits for rank 0 op 0 (recv from 1): a cycle");
}

TEST(c_verify, holding) {
  expect_finding(world_of({}, [](int self) { return replaced(exchange(self), "then 3", "then 2 3"); }), "holding",
                 "the round would complete if senders did not keep payloads");
}

/// Returns the schedule of rank `self` in a partial allreduce of two ranks. An offer of either rank must start the
/// round on both ranks. If `signal_after` is 0, a rank signals the other rank after its own offer. If `signal_after` is
/// 1, a rank has a fault: it signals only after it has received the other rank's signal.
std::string partial(int self, int signal_after) {
  const std::string me = std::to_string(self), other = std::to_string(1 - self);
  const std::string operands = self == 0 ? "b0[0 +6] b2[0 +6]" : "b2[0 +6] b0[0 +6]";
  return "buffer 0 input host f32 6\nbuffer 1 output host f32 6\nbuffer 2 scratch host f32 6\n"
         "op 0 signal_recv from " +
         me + " tag 0 then " + (signal_after == 0 ? "2 3" : "3") +
         "\n"
         "op 1 signal_recv from " +
         other + " tag 0 then " + (signal_after == 1 ? "2 3" : "3") +
         "\n"
         "op 2 signal_send to " +
         other +
         " tag 0\n"
         "op 3 capture f32 b0[0 +6] merge sum need 1 then 4 5 6\n"
         "op 4 send f32 b0[0 +6] to " +
         other +
         " tag 1 then 7\n"
         "op 5 recv f32 b2[0 +6] from " +
         other +
         " tag 1 then 6\n"
         "op 6 compute f32 b1[0 +6] = sum " +
         operands +
         " then 7\n"
         "op 7 nop\nexit 7\n";
}

TEST(c_verify, activation) {
  const header of{"partial_allreduce/mine", "synchronising", "solo seed 1"};
  const std::string good = world_of(of, [](int self) { return partial(self, 0); });
  EXPECT_EQ(ask(describe(good)).figures.holds, 1) << ask(describe(good)).found[0].text;
  expect_finding(world_of(of, [](int self) { return partial(self, 1); }), "activation",
                 "a call of rank 0 alone does not wake rank 1");
}

TEST(c_verify, hazard_with_its_segment) {
  const std::string text = slipped("tag 1 then 2", "tag 1 then 3");
  expect_finding(text, "hazard",
                 "one reads and the other writes elements [0, 6) of buffer 2, and nothing defines the order");
  const lsched_finding found = ask(describe(text)).found[0];
  EXPECT_EQ(found.rank, 1);
  EXPECT_EQ(found.peer, 0);
  EXPECT_EQ(found.op, 1u);
  EXPECT_EQ(found.buffer, 2u);
  EXPECT_EQ(found.begin, 0u);
  EXPECT_EQ(found.end, 6u);
}

TEST(c_verify, contents_with_the_two_ways) {
  expect_finding(
      world_of({},
               [](int self) {
                 return self == 1 ? exchange(1) : replaced(exchange(0), "b0[0 +6] b2[0 +6]", "b0[0 +6] b0[0 +6]");
               }),
      "contents",
      "the contribution of rank 0 is contained 2 times, once as operand a of rank 0 op 2 (compute sum), and once "
      "as operand b of rank 0 op 2 (compute sum)");
}

TEST(c_verify, expression) {
  expect_finding(slipped("sum b2[0 +6] b0[0 +6]", "sum b0[0 +6] b2[0 +6]"), "expression",
                 "an operand of a higher rank comes before");
}

TEST(c_verify, cost) {
  expect_finding(world_of({},
                          [](int self) {
                            const std::string other = std::to_string(1 - self);
                            return replaced(replaced(exchange(self), "op 0", "buffer 3 scratch host f32 6\nop 0"),
                                            "op 3 nop\nexit 3\n",
                                            "op 3 nop then 6\nop 4 send f32 b0[0 +6] to " + other +
                                                " tag 2 then 6\n"
                                                "op 5 recv f32 b3[0 +6] from " +
                                                other + " tag 2 then 6\nop 6 nop\nexit 6\n");
                          }),
                 "cost", "messages");
}

TEST(c_verify, synchronising) {
  expect_finding(world_of({.name = "hand on", .flags = "synchronising"},
                          [](int self) -> std::string {
                            if (self == 0)
                              return "buffer 0 input host f32 6\nop 0 send f32 b0[0 +6] to 1 tag 1\nexit 0\n";
                            return "buffer 0 output host f32 6\nop 0 recv f32 b0[0 +6] from 0 tag 1\nexit 0\n";
                          }),
                 "synchronising", "rank 0");
}

TEST(c_verify, in_place_is_another_question) {
  const std::string text = world_of({}, exchange);
  lsched_verify_desc desc = describe(text);
  desc.in_place = 1;
  EXPECT_STREQ(ask(desc).found[0].property, "hazard");
}

TEST(c_verify, notes_come_after_findings) {
  // Rank 0 writes its output, signals rank 1, waits for rank 1's signal, and writes again.
  const std::string text = world_of({.name = "note", .flags = ""}, [](int self) -> std::string {
    if (self == 1) return "op 0 signal_recv from 0 tag 0 then 1\nop 1 signal_send to 0 tag 0\nexit 1\n";
    return "buffer 0 input host f32 6\nbuffer 1 output host f32 6\n"
           "op 0 compute f32 b1[0 +6] = copy b0[0 +6] then 1\nop 1 signal_send to 1 tag 0 then 4\n"
           "op 2 signal_recv from 1 tag 0 then 3\nop 3 compute f32 b1[0 +6] = copy b0[0 +6] then 4\nop 4 nop\nexit 4\n";
  });
  const verdict it = ask(describe(text));
  ASSERT_EQ(it.status, LSCHED_OK) << it.why.text;
  EXPECT_EQ(it.figures.holds, 1) << it.found[0].text;
  EXPECT_EQ(it.figures.findings, 0u);
  ASSERT_EQ(it.figures.notes, 1u);
  EXPECT_NE(std::strstr(it.found[0].text, "only messages through other ranks define the order"), nullptr)
      << it.found[0].text;
}

// --- bad arguments -----------------------------------------------------------------------------------------

/// Checks that the request is refused with `code` and an error text that contains `words`, and that the call writes
/// nothing but the diagnostic.
void expect_refused(lsched_status code, const lsched_verify_desc& desc, const std::string& words) {
  const verdict before = empty_verdict();
  const verdict it = ask(desc);
  EXPECT_EQ(it.status, code) << words;
  EXPECT_NE(std::strstr(it.why.text, words.c_str()), nullptr) << it.why.text;
  EXPECT_EQ(std::memcmp(&it.figures, &before.figures, sizeof it.figures), 0);
  EXPECT_EQ(std::memcmp(it.found.data(), before.found.data(), sizeof it.found), 0);
}

TEST(c_verify, bad_text_is_refused_with_its_place_and_nothing_is_written) {
  const std::string good = world_of({}, exchange);
  expect_refused(LSCHED_ERR_ARGUMENT, describe(replaced(good, "recv", "rcv")), "expected a kind of op but found 'rcv'");
  const std::string beyond = replaced(good, "b2[0 +6]", "b2[1 +6]");
  expect_refused(LSCHED_ERR_BOUNDS, describe(beyond), "line 10");
  const std::string newer = replaced(good, "schedule 2", "schedule 4");
  expect_refused(LSCHED_ERR_UNSUPPORTED, describe(newer), "version 4");
  const std::string half = with_header(0, {}, exchange(0));
  expect_refused(LSCHED_ERR_ARGUMENT, describe(half), "rank 1 of 2 is missing");
  expect_refused(LSCHED_ERR_ARGUMENT, describe(std::string()), "line 1");
  expect_refused(LSCHED_ERR_ARGUMENT, describe(good, "telepathy"), "there is no collective \"telepathy\"");
}

TEST(c_verify, bad_requests_are_refused_and_nothing_is_written) {
  auto desc = describe("allreduce", 3, 7);
  const auto refuse = [&](lsched_status code, const std::string& words) {
    expect_refused(code, desc, words);
    desc = describe("allreduce", 3, 7);
  };
  desc.struct_size = 8, refuse(LSCHED_ERR_ARGUMENT, "struct_size");
  desc.collective = nullptr, refuse(LSCHED_ERR_ARGUMENT, "collective is null");
  desc.collective = "telepathy", refuse(LSCHED_ERR_ARGUMENT, "there is no collective \"telepathy\"");
  desc.algorithm = "magic", refuse(LSCHED_ERR_ARGUMENT, "no algorithm \"magic\"");
  for (const int32_t ranks : {0, -1, (1 << 20) + 1}) desc.ranks = ranks, refuse(LSCHED_ERR_ARGUMENT, "from 1 to 2^20");
  desc.count = std::uint64_t{1} << 48, refuse(LSCHED_ERR_ARGUMENT, "above the largest count");
  desc.reduction = LSCHED_BXOR, refuse(LSCHED_ERR_ARGUMENT, "bxor is not defined for f32");
  desc.activation = "solo", refuse(LSCHED_ERR_ARGUMENT, "only partial collectives");
  desc.collective = "partial_allreduce", refuse(LSCHED_ERR_ARGUMENT, "activation is null");
  desc.collective = "barrier", refuse(LSCHED_ERR_ARGUMENT, "moves no data");
  desc.in_place = 7, refuse(LSCHED_ERR_ARGUMENT, "in_place is neither 0 nor 1");
  desc.collective = "partial_allreduce", desc.activation = "solo", desc.in_place = 1;
  refuse(LSCHED_ERR_CONSTRAINT, "in place");
}

TEST(c_verify, null_arguments_are_errors) {
  const auto desc = describe("allreduce", 3, 7);
  verdict it = empty_verdict();
  lsched_finding* room = it.found.data();
  EXPECT_EQ(lsched_verify(nullptr, &it.figures, room, 4, nullptr), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_verify(&desc, nullptr, room, 4, nullptr), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_verify(&desc, &it.figures, nullptr, 4, nullptr), LSCHED_ERR_ARGUMENT);
  it.figures.struct_size = 0;
  EXPECT_EQ(lsched_verify(&desc, &it.figures, room, 4, nullptr), LSCHED_ERR_ARGUMENT);
  auto text = describe(std::string());
  text.text = nullptr;
  expect_refused(LSCHED_ERR_ARGUMENT, text, "collective is null");
  text.struct_size = 0;
  expect_refused(LSCHED_ERR_ARGUMENT, text, "struct_size");
}

}  // namespace
