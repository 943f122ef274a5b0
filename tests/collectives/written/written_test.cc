// Tests of algorithms that are read from files. verify() proves the valid algorithms, for odd and even numbers of
// ranks. Invalid files are refused, and the error text names the place of the error.
#include "collectives/written/written.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "bindings/input_file.h"
#include "collectives/registry.h"
#include "collectives/requests/sample_requests.h"
#include "collectives/selection.h"
#include "libsched/verify/verify.h"
#include "tests/support/symbolic_world.h"

namespace lsched::testing {
namespace {

/// Returns the text of an algorithm file with a head and the statements `rest`.
std::string file(const std::string& name, const std::string& collective, const std::string& rest) {
  return "libsched algorithm 1\nname \"" + name + "\"\ncollective " + collective + "\n" + rest;
}

const algorithm& added(const std::string& text) {
  const auto made = add_written(text);
  EXPECT_TRUE(made) << made.error().text;
  return made ? **made : *find("allreduce", "tree");
}

std::string refusal(const std::string& text) {
  const auto made = add_written(text);
  return made ? "accepted" : std::string(name_of(made.error().code)) + ": " + made.error().text;
}

/// Returns the first error of an algorithm, or an empty string if verify() proves the algorithm.
std::string objection(const algorithm& how, rank size, const shape& data, const activation& starts = {}) {
  const auto world = generate_world(how, size, data, starts);
  if (!world) return std::string(name_of(world.error().code)) + ": " + world.error().text;
  const auto answer =
      verify(*world, promise_of(how, size, data, starts), {.in_place = aliasing_of(*how.of, size, data)});
  if (answer.holds()) return "";
  return std::string(name_of(answer.findings[0].what)) + ": " + answer.findings[0].text;
}

void expect_proved(const algorithm& how, const std::vector<rank>& sizes = {1, 2, 3, 5, 6, 7, 4, 8, 13}) {
  for (const rank size : sizes)
    for (const std::uint64_t count :
         {std::uint64_t{0}, std::uint64_t{1}, wide(size), wide(size) + 1, wide(3 * size) - 1})
      for (const bool in_place : {false, true}) {
        if (in_place && !how.needs.in_place) continue;
        shape data = typical_shape(*how.of, size, count, dtype::f32, how.of->reduces ? kernel::sum : kernel::none);
        data.in_place = in_place;
        EXPECT_EQ(objection(how, size, data), "")
            << how.name << ", " << size << " ranks, count " << count << (in_place ? ", in place" : "");
      }
}

// --- valid files ---------------------------------------------------------------------------------------------

TEST(written, the_ring_of_the_guide_is_an_allreduce) {
  const algorithm& ring = added(*content_of(LSCHED_TEST_SOURCE_DIR "/docs/examples/my_ring.alg"));
  EXPECT_EQ(ring.name, "my_ring");
  expect_proved(ring);
  const shape data{.count = 100, .type = dtype::f32, .what = kernel::sum};
  EXPECT_EQ(cost_of_round(ring, 5, data, {}), cost_of_round(*find("allreduce", "ring"), 5, data, {}));
}

TEST(written, its_partial_form_is_one_like_others) {
  added(*content_of(LSCHED_TEST_SOURCE_DIR "/docs/examples/my_ring.alg"));
  const algorithm* const partial = find("partial_allreduce", "my_ring");
  ASSERT_NE(partial, nullptr);
  for (const rank size : {3, 5, 4})
    for (const activation_policy policy :
         {activation_policy::full, activation_policy::solo, activation_policy::majority})
      for (const std::uint64_t count : {0u, 1u, 10u}) {
        shape data{.count = count, .type = dtype::f32, .what = kernel::sum};
        EXPECT_EQ(objection(*partial, size, data, {.policy = policy}), "");
        if (count == 10) data.buckets = {3, 0, 7};
        EXPECT_EQ(objection(*partial, size, data, {.policy = policy}), "");
      }
}

TEST(written, folds_and_hypercubes_have_powers_and_bits) {
  expect_proved(added(file("doubling", "allreduce",
                           "rank_order\n"
                           "scratch low like in\n"
                           "out = copy in\n"
                           "let core = 2 ^ log2(P)\n"
                           "let rest = P - core\n"
                           "if r < 2 * rest and r mod 2 == 1  # an extra\n"
                           "  send out to r - 1\n"
                           "  out = recv from r - 1\n"
                           "else\n"
                           "  if r < 2 * rest\n"
                           "    out = op out recv from r + 1\n"
                           "  end\n"
                           "  let index = min(r, r / 2 * (r < 2 * rest) + (r - rest) * (r >= 2 * rest))\n"
                           "  for k in 0 .. log2(core) - 1\n"
                           "    let other = index xor 2 ^ k\n"
                           "    let peer = 2 * other * (other < rest) + (other + rest) * (other >= rest)\n"
                           "    send out to peer\n"
                           "    if peer > r\n"
                           "      out = op out recv from peer\n"
                           "    else\n"
                           "      low = recv from peer\n"
                           "      out = op low out\n"
                           "    end\n"
                           "  end\n"
                           "  if r < 2 * rest\n"
                           "    send out to r + 1\n"
                           "  end\n"
                           "end\n")));
}

TEST(written, every_kind_of_collective_that_has_blocks) {
  expect_proved(added(file("w", "bcast",
                           "chunks 2\n"
                           "if r == root\n"
                           "  for s in 1 .. P - 1\n"
                           "    send in[0] to (root + s) mod P\n"
                           "    send in[1] to (root + s) mod P\n"
                           "  end\n"
                           "else\n"
                           "  out[0] = recv from root\n"
                           "  out[1] = recv from root\n"
                           "end\n")));
  for (const char* const collective : {"allgather", "allgatherv"})
    expect_proved(added(file("w", collective,
                             "in_place\nout[r] = copy in\n"
                             "for s in 0 .. P - 2\n"
                             "  send out[(r - s) mod P] to (r + 1) mod P\n"
                             "  out[(r - s - 1) mod P] = recv from (r - 1) mod P\n"
                             "end\n")));
  for (const char* const collective : {"gather", "gatherv"})
    expect_proved(
        added(file("w", collective,
                   "in_place\nif r != root\n  send in to root\nelse\n  out[r] = copy in\n"
                   "  for s in 0 .. P - 1\n    if s != r\n      out[s] = recv from s\n    end\n  end\nend\n")));
  for (const char* const collective : {"scatter", "scatterv"})
    expect_proved(added(file("w", collective,
                             "in_place\nif r == root\n  for s in 0 .. P - 1\n    if s != r\n      send in[s] to s\n"
                             "    end\n  end\n  out = copy in[r]\nelse\n  out = recv from root\nend\n")));
  expect_proved(added(file("w", "alltoall",
                           "out[r] = copy in[r]\nfor s in 1 .. P - 1\n  send in[(r + s) mod P] to (r + s) mod P\n"
                           "  out[(r - s) mod P] = recv from (r - s) mod P\nend\n")));
  expect_proved(
      added(file("w", "reduce",
                 "rank_order\nchannels 2\nscratch sum like in\nif r > 0\n  sum = op recv from r - 1 in\nelse\n"
                 "  sum = copy in\nend\nif r < P - 1\n  send sum to r + 1\nelse if r != root\n"
                 "  send sum to root channel 1\nelse\n  out = copy sum\nend\n"
                 "if r == root and r != P - 1\n  out = recv from P - 1 channel 1\nend\n")));
}

TEST(written, scans_and_scattered_sums) {
  expect_proved(added(file("w", "scan",
                           "rank_order\nif r == 0\n  out = copy in\nelse\n  out = op recv from r - 1 in\nend\n"
                           "if r < P - 1\n  send out to r + 1\nend\n")));
  for (const char* const collective : {"reduce_scatter_block", "reduce_scatter"})
    expect_proved(added(file("w", collective,
                             "in_place\nscratch sum like in\n"
                             "for s in 1 .. P - 1\n  let b = (r - s) mod P\n"
                             "  if s == 1\n    send in[b] to (r + 1) mod P\n  else\n    send sum[b] to (r + 1) mod P\n"
                             "  end\n  let g = (r - s - 1) mod P\n  sum[g] = op in[g] recv from (r - 1) mod P\nend\n"
                             "if P == 1\n  out = copy in[r]\nelse\n  out = copy sum[r]\nend\n")));
}

TEST(written, chunks_that_must_be_equal_refuse_other_counts) {
  const algorithm& how = added(file("equal", "allreduce",
                                    "needs P == 2\nchunks 4\nscratch t chunks 4\nfor c in 0 .. 3\n"
                                    "  send in[c] to 1 - r\n  t[3 - c] = recv from 1 - r\nend\n"
                                    "for c in 3 .. 0 by -1\n  if r == 0\n    out[c] = op in[c] t[3 - c]\n  else\n"
                                    "    out[c] = op t[3 - c] in[c]\n  end\nend\n"));
  for (const std::uint64_t count : {0u, 4u, 8u, 400u, 1032u, 4000u, 4004u})
    EXPECT_EQ(objection(how, 2, {.count = count, .type = dtype::i32, .what = kernel::sum}), "");
  EXPECT_EQ(objection(how, 2, {.count = 5, .type = dtype::i32, .what = kernel::sum}),
            "LSCHED_ERR_CONSTRAINT: equal has scratch vectors of equal chunks, so the count must be a multiple of 4");
  EXPECT_EQ(objection(how, 3, {.count = 4, .type = dtype::i32, .what = kernel::sum}),
            "LSCHED_ERR_CONSTRAINT: equal needs P == 2, but P is 3");
}

TEST(written, a_range_of_chunks_is_one_message) {
  const algorithm& how = added(file("halves", "allreduce",
                                    "needs P == 2\nchunks 5\nsend in[0 .. 3] to 1 - r\n"
                                    "out[0 .. 3] = op in[0 .. 3] recv from 1 - r\nsend in[4] to 1 - r\n"
                                    "out[4] = op in[4] recv from 1 - r\n"));
  expect_proved(how, {2});
  EXPECT_EQ(cost_of_round(how, 2, {.count = 10, .type = dtype::u8, .what = kernel::sum}, {}).messages, 4u);
}

/// Both ranks receive into the vector from which they send. With "copy", the message arrives in scratch memory. Without
/// "copy", the ranks would wait for each other.
TEST(written, what_is_exchanged_arrives_elsewhere_and_is_copied) {
  const auto swap = [](const std::string& name, const std::string& arrival) {
    return added(file(name, "allreduce",
                      "needs P == 2\nin_place\nout = copy in\nsend out to 1 - r\nout = op out " + arrival +
                          " 1 - r\n"
                          "send out to 1 - r\nout = " +
                          std::string(name == "stuck" ? "" : "copy ") + "recv from 1 - r\n"));
  };
  const shape data{.count = 4, .type = dtype::i32, .what = kernel::sum, .in_place = true};
  EXPECT_EQ(objection(swap("swap", "recv from"), 2, data), "");
  EXPECT_NE(objection(swap("stuck", "recv from"), 2, data).find("progress: "), std::string::npos);
}

/// Bruck's allgather packs blocks of several ranks into one message. In a partial schedule, some of these ranks may not
/// contribute, so the proof fails.
TEST(written, messages_that_mix_contributions_have_no_partial_form) {
  added(file("packed", "allgather",
             "needs P == 4\nscratch t like out\nt[0] = copy in\n"
             "send t[0] to (r - 1) mod 4\nt[1] = recv from (r + 1) mod 4\n"
             "send t[0 .. 1] to (r - 2) mod 4\nt[2 .. 3] = recv from (r + 2) mod 4\n"
             "for i in 0 .. 3\n  out[(r + i) mod 4] = copy t[i]\nend\n"));
  shape data{.count = 3, .type = dtype::f32};
  EXPECT_EQ(objection(*find("allgather", "packed"), 4, data), "");
  data.what = kernel::sum;  // operation that combines the late contributions of a rank
  const algorithm& partial = *find("partial_allgather", "packed");
  const std::string told = objection(partial, 4, data, {.policy = activation_policy::solo});
  EXPECT_NE(told.find("CONSTRAINT: the partial form of packed failed its proof: "), std::string::npos) << told;
  for (const candidate& one : candidates(k_partial_allgather, {0, 4}, data, {.policy = activation_policy::solo}, {}))
    if (one.how->name == "packed") {
      EXPECT_TRUE(one.error);
    }
}

/// After some thousand messages, the generator reuses the memory into which earlier messages arrived. The memory must
/// be large enough for the longest message.
TEST(written, many_arrivals_of_unequal_length) {
  const algorithm& how = added(file("many", "allreduce",
                                    "needs P == 2\nscratch few chunks 1\nscratch lot chunks 4\nchunks 4\n"
                                    "for i in 1 .. 8300\n  send in[0] to 1 - r\n  few = copy recv from 1 - r\nend\n"
                                    "send in to 1 - r\nlot = copy recv from 1 - r\n"));
  const auto made = how.generate({0, 2}, {.count = 16, .type = dtype::f32, .what = kernel::sum});
  EXPECT_TRUE(made) << made.error().text;
}

// --- "auto" --------------------------------------------------------------------------------------------------

/// The algorithm "wrong" has the lowest predicted time, because it sends no messages. Its result is not a scan, so auto
/// must not choose it.
TEST(written, auto_takes_what_is_proved_and_nothing_else) {
  const algorithm& wrong = added(file("wrong", "scan", "in_place\nout = copy in\n"));
  const shape data{.count = 1, .type = dtype::f64, .what = kernel::sum};
  EXPECT_NE(objection(wrong, 3, data), "");
  const auto chosen = choose("scan", "auto", {0, 3}, data);
  ASSERT_TRUE(chosen);
  EXPECT_NE((*chosen)->name, "wrong");
  for (const candidate& one : candidates(k_scan, {0, 3}, data, {}, {}))
    if (one.how->name == "wrong") {
      ASSERT_TRUE(one.error);
      EXPECT_NE(one.error->text.find("wrong failed its proof"), std::string::npos) << one.error->text;
    }
  const auto alone = choose("scan", "auto", {0, 1}, data);
  ASSERT_TRUE(alone);
  EXPECT_EQ(*choose("scan", "wrong", {0, 3}, data), &*std::ranges::find(algorithms(), "wrong", &algorithm::name));
}

TEST(written, auto_may_take_it) {
  const algorithm& direct =
      added(file("pairs", "allgather",
                 "needs P == 2\nin_place\nout[r] = copy in\nsend in to 1 - r\nout[1 - r] = recv from 1 - r\n"));
  const auto all = candidates(k_allgather, {0, 2}, {.count = 10, .type = dtype::f32}, {}, {});
  const auto own = std::ranges::find_if(all, [&](const candidate& one) { return one.how->name == direct.name; });
  ASSERT_NE(own, all.end());
  EXPECT_EQ(own->hops, 1u);
}

// --- refusals ------------------------------------------------------------------------------------------------

TEST(written, a_text_is_added_once) {
  const std::string text = file("once", "allreduce", "out = copy in\n");
  EXPECT_EQ(&added(text), &added(text));
  EXPECT_EQ(refusal(text + "# more\n"),
            "LSCHED_ERR_STATE: there is another algorithm allreduce/once: choose another name");
  EXPECT_EQ(refusal(file("tree", "allreduce", "")),
            "LSCHED_ERR_STATE: there is another algorithm allreduce/tree: choose another name");
}

TEST(written, what_is_wrong_has_a_place) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "ARGUMENT: line 1, column 1: expected 'libsched' but found the end of the text"},
      {"libsched algorithm 2\n", "UNSUPPORTED: line 1, column 20: only version 1 of algorithm files can be read"},
      {"libsched algorithm 1\n", "ARGUMENT: line 2, column 1: expected 'name' and a name in quotes"},
      {"libsched algorithm 1\nname \"auto\"\n", "ARGUMENT: line 2, column 1: a name has 1 to 64 letters"},
      {"libsched algorithm 1\nname \"x\"\n", "ARGUMENT: line 3, column 1: expected 'collective'"},
      {file("x", "allsum", ""), "ARGUMENT: line 3, column 12: there is no collective 'allsum'"},
      {file("x", "alreduce", ""), "there is no collective 'alreduce'; did you mean allreduce?"},
      {file("x", "adasum", ""), "UNSUPPORTED: line 3, column 12: 'adasum' cannot be written"},
      {file("x", "partial_allreduce", ""),
       "in an algorithm file: write the dense collective, allreduce, which includes its partial form"},
      {file("x", "allreduce", "chunks 2\nchunks 2\n"), "ARGUMENT: line 5, column 1: this line occurs twice"},
      {file("x", "allreduce", "send in to q\n"), "ARGUMENT: line 4, column 12: there is no 'q' here: use P, r, root"},
      {file("x", "allreduce", "in = copy out\n"), "ARGUMENT: line 4, column 1: the input is read-only"},
      {file("x", "allreduce", "v = 1\n"),
       "line 4, column 1: expected 'send', 'let', 'for', 'if' or the vector that is written but found 'v'"},
      {file("x", "allreduce", "out = in\n"), "ARGUMENT: line 4, column 7: expected 'copy', 'recv' or 'op'"},
      {file("x", "bcast", "out = op in in\n"), "ARGUMENT: line 4, column 7: bcast has no reduction"},
      {file("x", "allreduce", "for P in 0 .. 1\nend\n"),
       "ARGUMENT: line 4, column 5: expected a name that is not taken"},
      {file("x", "allreduce", "for s in 0 .. 1\n"), "ARGUMENT: line 5, column 1: expected 'end'"},
      {file("x", "allreduce", "if P = 1\nend\n"),
       "line 4, column 6: expected the end of the line (compare values with ==)"},
      {file("x", "allreduce", "chunks r + 1\n"), "line 4, column 8: there is no 'r' here: use P"},
      {file("x", "reduce", "needs r == 0\n"), "line 4, column 7: there is no 'r' here: use P, root"},
      {file("x", "allreduce", "name \"y\"\n"), "line 4, column 1: this line occurs twice"},
      {file("x", "allreduce", "scratch s like in\nfor s in 0 .. 1\nend\n"),
       "line 5, column 5: expected a name that is"},
      {file("x", "allreduce", "end\n"), "ARGUMENT: line 4, column 1: expected a statement but found 'end'"},
      {file("x", "allreduce", "let a = a\n"), "ARGUMENT: line 4, column 9: there is no 'a' here"},
      {file("x", "allreduce", "let a = 99999999999999999999\n"), "ARGUMENT: line 4, column 9: '99999999999999999999'"},
      {file("x", "allreduce", "let a = 1 2\n"), "ARGUMENT: line 4, column 11: expected the end of the line"},
      {file("x", "allreduce", "out[0 = copy in\n"), "ARGUMENT: line 4, column 7: expected ']'"},
      {file("x", "allreduce", "let a = " + std::string(100, '(') + "\n"), "nested too deeply"},
  };
  for (const auto& [text, expected] : cases) {
    const std::string told = refusal(text);
    EXPECT_NE(told.find(expected), std::string::npos) << told << "\ninstead of " << expected;
  }
}

TEST(written, what_is_wrong_for_a_rank_says_with_which_values) {
  const auto told = [](const std::string& name, const std::string& statements) {
    const algorithm& how = added(file(name, "allreduce", statements));
    return objection(how, 3, {.count = 9, .type = dtype::f32, .what = kernel::sum});
  };
  EXPECT_EQ(told("e1", "for s in 0 .. 2\n  send in to r + s\nend\n"),
            "LSCHED_ERR_ARGUMENT: e1: line 5, column 14: with P = 3, r = 0, s = 0: rank 0 is this rank: a rank cannot "
            "be its own peer");
  EXPECT_EQ(told("e2", "send in to r - 1\n"),
            "LSCHED_ERR_ARGUMENT: e2: line 4, column 12: with P = 3, r = 0: rank -1 does not exist");
  EXPECT_EQ(told("e3", "chunks P\nout[P] = copy in[0]\n"),
            "LSCHED_ERR_ARGUMENT: e3: line 5, column 1: with P = 3, r = 0: out[3] does not exist: out has 3 chunks");
  EXPECT_EQ(told("e4", "chunks 2\nout[0] = copy in[1]\n"),
            "LSCHED_ERR_ARGUMENT: e4: line 5, column 1: with P = 3, r = 0: the target has 5 elements, but an operand "
            "has 4");
  EXPECT_EQ(told("e5", "let a = P / (r - r)\n"),
            "LSCHED_ERR_ARGUMENT: e5: line 4, column 9: with P = 3, r = 0: the expression divides by 0, takes the "
            "logarithm of a number below 1, or exceeds 64 bits: correct the expression");
  EXPECT_EQ(told("e6", "for s in 0 .. 4 by 0\nend\n"),
            "LSCHED_ERR_ARGUMENT: e6: line 4, column 20: with P = 3, r = 0: the step of the loop is 0, so the loop "
            "would never end");
  EXPECT_EQ(
      told("e7", "for s in 0 .. 2 ^ 60\nend\n"),
      "LSCHED_ERR_ARGUMENT: e7: line 4, column 1: with P = 3, r = 0, s = 4194303: this loop has more rounds than a "
      "schedule can have ops");
  EXPECT_EQ(told("e8", "send in to (r + 1) mod P channel 1\n"),
            "LSCHED_ERR_ARGUMENT: e8: line 4, column 34: with P = 3, r = 0: there is no channel 1: 'channels' sets the "
            "number of channels");
  EXPECT_EQ(
      told("e10", "chunks 65536\nfor s in 1 .. 257\n  out = op out in\nend\n"),
      "LSCHED_ERR_ARGUMENT: e10: line 6, column 12: with P = 3, r = 0, s = 86: the statements read and write more "
      "than 16777216 chunks");
  EXPECT_EQ(told("e9", "chunks 0\n"),
            "LSCHED_ERR_CONSTRAINT: e9: line 4, column 8: with P = 3: the algorithm has 0 chunks: use 1 to 65536");
}

TEST(written, what_is_wrong_with_an_op_names_its_line) {
  const auto told = [](const std::string& name, const std::string& statements) {
    return objection(added(file(name, "allreduce", statements)), 3,
                     {.count = 9, .type = dtype::f32, .what = kernel::sum});
  };
  EXPECT_EQ(told("l1", "# a comment\nout = copy in\nif r == 0\n  send in to 2\nend\n"),
            "matching: rank 0 op 1 (send to 2, line 7), tag 0, has no matching receive");
  EXPECT_EQ(told("l2", "chunks 3\nout = copy in\nout[0 .. 1] = copy out[1 .. 2]\n"),
            "LSCHED_ERR_ARGUMENT: op 1 (compute, line 6): has two regions that overlap but are not equal: use "
            "equal or separate regions");
  EXPECT_EQ(told("l3", "chunks P\nout = copy in\nout[0] = op in[0] in[1]\n").find("contents: rank 0 output 0"), 0u);
  const std::string ring = *content_of(LSCHED_TEST_SOURCE_DIR "/docs/examples/my_ring.alg");
  std::string wrong = ring;
  wrong.replace(wrong.find("op in[(r - s) mod P]"), 20, "op in[r]").replace(wrong.find("my_ring"), 7, "wr_ring");
  EXPECT_EQ(objection(added(wrong), 3, {.count = 9, .type = dtype::f32, .what = kernel::sum}),
            "contents: rank 0 output 0 elements [0, 3): the contributions come from the wrong elements; "
            "rank 2 op 5 (compute sum, line 13) combined them last");
}

/// The test drops, repeats and swaps words, numbers and symbols of a valid text. The library must either refuse a
/// damaged text or generate schedules, in a short time.
TEST(written, damaged_texts_do_no_harm) {
  const std::string good = *content_of(LSCHED_TEST_SOURCE_DIR "/docs/examples/my_ring.alg");
  std::uint64_t state = 7;
  const auto draw = [&](std::size_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::size_t>(state >> 33) % below;
  };
  int accepted = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string text = good;
    for (std::size_t n = 1 + draw(3); n > 0; --n) {
      const std::size_t at = draw(text.size()), length = 1 + draw(5);
      if (draw(3) == 0)
        text.erase(at, length);
      else
        text.replace(at, draw(2) * length, good.substr(draw(good.size()), length));
    }
    const std::size_t name = text.find("my_ring");
    if (name != text.npos) text.replace(name, 7, "d" + std::to_string(i));
    const auto made = add_written(text);
    if (!made) {
      EXPECT_NE(made.error().text, "");
      continue;
    }
    ++accepted;
    (void)objection(**made, 3, typical_shape(*(*made)->of, 3, 7, dtype::f32, kernel::sum));
  }
  EXPECT_GT(accepted, 20);
}

}  // namespace
}  // namespace lsched::testing
