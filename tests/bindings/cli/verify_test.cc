// Tests of `lsched verify`: proofs of collectives and of files, and the texts of failed proofs.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/bindings/cli/command_line.h"

namespace lsched::testing {
namespace {

TEST(CommandVerify, says_what_it_has_proved) {
  const outcome it = run_well(lsched({"verify", "allreduce", "--algorithm", "tree", "--ranks", "2-3", "--count", "1"}));
  EXPECT_TRUE(contains(it.out, "proved  allreduce/tree, 3 ranks, count 1, in place: 4 messages")) << it.out;
  EXPECT_TRUE(contains(it.out, "proved  allreduce/tree, 3 ranks, count 1, means: 4 messages")) << it.out;
  EXPECT_TRUE(contains(it.out, "\n8 worlds proved, 0 failed\n")) << it.out;
}

TEST(CommandVerify, json_ends_with_the_totals) {
  const outcome it = run_well(lsched(
      {"verify", "partial_allreduce", "--algorithm", "tree", "--ranks", "1,5", "--count", "0,7", "--json", "-"}));
  std::vector<json> lines;
  std::istringstream text(it.out);
  for (std::string line; std::getline(text, line);) lines.push_back(json::parse(line));
  ASSERT_EQ(lines.size(), 7u * 2 * 3 + 1);  // activations, rank counts, counts (0, 7, and 7 in buckets), and the line
                                            // of totals
  for (std::size_t i = 0; i + 1 < lines.size(); ++i) EXPECT_EQ(lines[i]["holds"], true) << lines[i];
  EXPECT_EQ(lines.back(), json::parse(R"({"verified":42,"failed":0})"));
}

TEST(CommandVerify, proves_sparse_allreduces) {
  const outcome it = run_well(lsched({"verify", "sparse_allreduce", "--ranks", "2-3", "--count", "100", "--k", "7"}));
  EXPECT_TRUE(contains(it.out, "proved  sparse_allreduce/oktopk, 3 ranks, count 100, k 7, defer: ")) << it.out;
  EXPECT_TRUE(contains(it.out, "proved  sparse_allreduce/gtopk, 2 ranks, count 100, k 7: ")) << it.out;
  EXPECT_TRUE(contains(it.out, "proved  sparse_allreduce/oktopk, 3 ranks, count 100, k 7, reused: ")) << it.out;
  EXPECT_TRUE(contains(it.out, "\n16 worlds proved, 0 failed\n")) << it.out;
  const outcome one = run(lsched({"verify", "sparse_allreduce", "--algorithm", "topka", "--ranks", "5", "--count", "9",
                                  "--k", "0,3", "--json", "-"}));
  EXPECT_TRUE(contains(one.out, R"("count":9,"k":3,"defers":false,"reuses":false,"holds":true)")) << one.out;
  EXPECT_TRUE(contains(one.out, R"({"verified":2,"failed":0})")) << one.out;
}

TEST(CommandVerify, proves_partial_sparse_allreduces) {
  const std::string name = "partial_sparse_allreduce";
  const outcome it = run_well(lsched({"verify", name, "--ranks", "3", "--count", "100", "--k", "7"}));
  EXPECT_TRUE(contains(it.out, "proved  partial_sparse_allreduce/oktopk solo, 3 ranks, count 100, k 7, defer: "))
      << it.out;
  EXPECT_TRUE(contains(it.out, "proved  partial_sparse_allreduce/gtopk quorum(2), 3 ranks, count 100, k 7: "))
      << it.out;
  EXPECT_TRUE(contains(it.out, "\n56 worlds proved, 0 failed\n")) << it.out;
  const outcome one = run(lsched(
      {"verify", name, "--algorithm", "topka", "--ranks", "5", "--activation", "quorum(3)+every(4)", "--json", "-"}));
  EXPECT_TRUE(contains(one.out, R"_("activation":"quorum(3)+every(4)")_")) << one.out;
  EXPECT_TRUE(contains(one.out, R"({"verified":1,"failed":0})")) << one.out;
  const outcome text = run(lsched({"show", name, "--algorithm", "topka", "--activation", "quorum(2)", "--ranks", "3"}));
  EXPECT_TRUE(contains(text.out, "\nname \"partial_sparse_allreduce/topka\"\n")) << text.out;
  EXPECT_TRUE(contains(text.out, "\nactivation quorum 2 seed ")) << text.out;
}

TEST(CommandVerify, proves_a_file_and_finds_the_slip_in_another) {
  const std::string world =
      run(lsched({"show", "allreduce", "--algorithm", "recursive_doubling", "--ranks", "3", "--all"})).out;
  {
    const temporary_file good(world);
    const outcome it = run(lsched({"verify", good.path}));
    EXPECT_EQ(it.status, 0) << it.err << it.out;
    EXPECT_TRUE(contains(it.out, "checked as allreduce/recursive_doubling of sum of 1024 x f32: ")) << it.out;
    const words file{"verify", good.path};
    const auto verify = [&](words more) {
      more.insert(more.begin(), file.begin(), file.end());
      return run(lsched(more));
    };
    EXPECT_EQ(verify({"--op", "sum", "--dtype", "f32", "--count", "1024", "--require-promise"}).status, 0);
    EXPECT_TRUE(contains(verify({"--op", "max"}).out, "contents: "));
    EXPECT_TRUE(contains(verify({"--dtype", "f64"}).out, "has 1024 x f32 as its input, but 1024 x f64 are promised"));
    EXPECT_TRUE(contains(verify({"--count", "5"}).out, "but 5 x f32 are promised"));
    EXPECT_TRUE(contains(verify({"--root", "1"}).err, "allreduce has no root"));
    EXPECT_EQ(verify({"--count", "1,2"}).status, 2);
    EXPECT_TRUE(contains(verify({"--json", "-"}).out,
                         R"("promise":{"collective":"allreduce","algorithm":)"
                         R"("recursive_doubling","op":"sum","dtype":"f32","count":1024})"));
  }
  {
    std::string slip = world;
    const auto place = slip.find("= sum b0[0 +1024] b");
    ASSERT_NE(place, std::string::npos);
    slip.replace(place + 18, 2, "b0");
    slip.erase(slip.find(" releases_b", place), std::strlen(" releases_b 0"));
    for (auto word = slip.find(" in_place"); word != std::string::npos; word = slip.find(" in_place"))
      slip.erase(word, std::strlen(" in_place"));  // without this word, loading derives the flag from the buffers
    const temporary_file bad(slip);
    const outcome it = run(lsched({"verify", bad.path}));
    EXPECT_EQ(it.status, 1) << it.out;
    EXPECT_TRUE(contains(it.out, "the contribution of rank 0 is contained 2 times")) << it.out << it.err;
  }
  const temporary_file torn(world.substr(0, world.size() / 2));
  const outcome it = run(lsched({"verify", torn.path}));
  EXPECT_EQ(it.status, 1);
  EXPECT_TRUE(contains(it.err, "line ")) << it.err;
}

TEST(CommandVerify, strange_files_are_told_of_in_one_line) {
  for (const std::string& content : {std::string(), std::string("# nothing\n"), std::string("\x7f\x45\0\xff\n", 5)}) {
    const temporary_file strange(content);
    const outcome it = run(lsched({"verify", strange.path}));
    EXPECT_EQ(it.status, 1);
    EXPECT_TRUE(contains(it.err, strange.path + ": the file is not an algorithm file, a schedule file, an MSCCL"))
        << it.err;
    EXPECT_EQ(std::count(it.err.begin(), it.err.end(), '\n'), 1) << it.err;
  }
}

TEST(CommandVerify, a_name_that_no_terminal_should_see_is_escaped) {
  const temporary_file named(
      "libsched schedule 2\nname \"\\x1b[31mred\\xff\"\nrank 0 of 1\nflags\nactivation none seed 0\n"
      "op 0 nop\nexit 0\n");
  EXPECT_TRUE(
      contains(run(lsched({"verify", named.path})).out, "proved  \\x1b[31mred\\xff, 1 rank, outputs not checked"));
  const outcome it = run_well(lsched({"verify", named.path, "--json", "-"}));
  EXPECT_TRUE(contains(it.out, R"("world":"\\x1b[31mred\\xff, 1 rank)")) << it.out;
}

TEST(CommandVerify, a_world_without_a_promise_is_counted_as_such) {
  const auto named = [](const std::string& name) {
    return "libsched schedule 2\nname \"" + name +
           "\"\nrank 0 of 1\nflags\nactivation none seed 0\n"
           "buffer 0 input host f32 6\nbuffer 1 output host f32 6\nop 0 nop\nexit 0\n";
  };
  {
    const temporary_file mistyped(named("partial_allreduce_x"));
    const std::string out = run(lsched({"verify", mistyped.path})).out;
    EXPECT_TRUE(contains(out, "outputs not checked (if the file is meant to be partial_allreduce, add --promise"))
        << out;
    EXPECT_TRUE(contains(out, "\n1 world proved, 1 of them without a check of the outputs, 0 failed\n")) << out;
  }
  const temporary_file other(named("telepathy"));
  const std::string lines = run(lsched({"verify", other.path, "--json", "-"})).out;
  EXPECT_TRUE(contains(lines, "outputs not checked\"")) << lines;
  EXPECT_TRUE(contains(lines, R"({"verified":1,"failed":0,"unpromised":1})")) << lines;
  const std::string told = run(lsched({"verify", other.path, "--promise", "allreduce"})).out;
  EXPECT_TRUE(contains(told, "\n0 worlds proved, 1 failed")) << told;
  const outcome required = run(lsched({"verify", other.path, "--require-promise"}));
  EXPECT_EQ(required.status, 1);
  EXPECT_TRUE(contains(required.err, "outputs not checked")) << required.err;
  EXPECT_TRUE(
      contains(run(lsched({"verify", other.path, "--op", "sum"})).err, "does not begin with the name of a collective"));
}

TEST(CommandVerify, lines_of_an_msccl_program_are_those_of_what_it_becomes) {
  std::string xml = content_of(LSCHED_TEST_SOURCE_DIR "/tests/collectives/written/msccl/all_pairs.xml");
  xml.replace(xml.find("srcbuf=\"i\" srcoff=\"2\""), 21, "srcbuf=\"i\" srcoff=\"0\"");
  const temporary_file wrong(xml);
  const outcome it = run(lsched({"verify", wrong.path, "--ranks", "3", "--count", "12"}));
  EXPECT_EQ(it.status, 1);
  EXPECT_TRUE(
      contains(it.out, "\nline numbers refer to the output of `lsched show " + wrong.path + " --algorithm-file -`\n"))
      << it.out;
}

TEST(CommandVerify, goes_on_behind_what_an_algorithm_file_refuses) {
  const temporary_file refused(broadcast("picky", "let x = 1 / (P - 3)\n"));
  const outcome it = run(lsched({"verify", refused.path, "--ranks", "2-4", "--count", "5"}));
  EXPECT_EQ(it.status, 1) << it.err;
  EXPECT_TRUE(
      contains(it.out, "FAILED  bcast/picky, 3 ranks, count 5, root 0\n        refused: picky: line 4, column "))
      << it.out;
  EXPECT_TRUE(contains(it.out, "\nproved  bcast/picky, 4 ranks")) << it.out;
  EXPECT_TRUE(contains(it.out, " failed\n")) << it.out;
  const outcome lines = run(lsched({"verify", refused.path, "--ranks", "3", "--count", "5", "--json", "-"}));
  EXPECT_TRUE(contains(lines.out, R"("findings":[{"property":"refused","text":"picky: line 4)")) << lines.out;
  EXPECT_TRUE(contains(lines.out, R"({"verified":0,"failed":3})")) << lines.out;

  const temporary_file of_four(broadcast("four", "needs P == 4\n"));
  const outcome some = run_well(lsched({"verify", of_four.path, "--ranks", "3-4", "--count", "5"}));
  EXPECT_TRUE(contains(some.out, "\nleft out: four needs P == 4, but P is 3\n3 worlds proved, 0 failed\n")) << some.out;
}

TEST(CommandVerify, says_what_fails_many_worlds_once) {
  const temporary_file lazy(
      "libsched algorithm 1\nname \"lazy\"\ncollective allreduce\nin_place\n"
      "out = op in recv from (r + 1) mod P\n");
  const outcome it = run(lsched({"verify", lazy.path, "--ranks", "2", "--count", "5"}));
  EXPECT_EQ(it.status, 1) << it.err;
  EXPECT_TRUE(contains(it.out, "FAILED  allreduce/lazy, 2 ranks, count 5\n        ")) << it.out;
  EXPECT_TRUE(contains(it.out, "\nFAILED  allreduce/lazy, 2 ranks, count 5, means, in place: as above\n")) << it.out;
  EXPECT_TRUE(contains(it.out, "\n0 worlds proved, 4 failed\n")) << it.out;
  const outcome lines = run(lsched({"verify", lazy.path, "--ranks", "2", "--count", "5", "--json", "-"}));
  EXPECT_FALSE(contains(lines.out, "as above")) << lines.out;
}

TEST(CommandVerify, a_mistake_that_means_make_by_other_ops_is_told_once) {
  std::string text = content_of(k_ring);
  text.replace(text.find("send in[r] to"), 13, "send in[0] to");
  const temporary_file stuck(text);
  const outcome it = run(lsched({"verify", stuck.path, "--ranks", "3", "--count", "5,6"}));
  EXPECT_TRUE(contains(it.out, "\nFAILED  allreduce/my_ring, 3 ranks, count 6\n        contents: ")) << it.out;
  EXPECT_TRUE(contains(it.out, "\nFAILED  allreduce/my_ring, 3 ranks, count 6, means: as above, by other ops\n"));
  EXPECT_TRUE(contains(it.out, "\nFAILED  allreduce/my_ring, 3 ranks, count 6, in place: as above\n")) << it.out;
}

TEST(CommandVerify, notes_are_told) {
  const temporary_file fragile(
      "libsched schedule 2\nname \"fragile\"\nrank 0 of 2\nflags\nactivation none seed 0\n"
      "buffer 0 input host f32 6\nbuffer 1 output host f32 6\n"
      "op 0 compute f32 b1[0 +6] = copy b0[0 +6] then 1\nop 1 signal_send to 1 tag 0 then 4\n"
      "op 2 signal_recv from 1 tag 0 then 3\nop 3 compute f32 b1[0 +6] = copy b0[0 +6] then 4\nop 4 nop\nexit 4\n"
      "libsched schedule 2\nname \"fragile\"\nrank 1 of 2\nflags\nactivation none seed 0\n"
      "op 0 signal_recv from 0 tag 0 then 1\nop 1 signal_send to 0 tag 0\nexit 1\n");
  const outcome it = run_well(lsched({"verify", fragile.path}));
  EXPECT_TRUE(
      contains(it.out, "\n        note: hazard: rank 0 op 0 (compute copy) and op 3 (compute copy): both write"))
      << it.out;
  const outcome lines = run(lsched({"verify", fragile.path, "--json", "-"}));
  EXPECT_TRUE(contains(lines.out, R"("findings":[],"notes":[{"property":"hazard")")) << lines.out;
}

TEST(CommandVerify, shows_its_progress_on_a_line_of_its_own) {
  const auto begin = clock::now();
  const std::string text = on_terminal(lsched({"verify", "alltoall", "--ranks", "100-102", "--count", "1"}));
  const double seconds = std::chrono::duration<double>(clock::now() - begin).count();
  // For each of 3 rank counts: bruck in place and out of place, direct the same with 3 lengths of segments, and one
  // world with lists.
  constexpr std::ptrdiff_t expected = 3 * (2 + 2 * 3 + 1);
  const std::string worlds = std::to_string(expected);
  const std::string progress = " of " + worlds + " worlds ";
  std::ptrdiff_t shown = 0, proved = 0;
  for (auto at = text.find(progress); at != std::string::npos; at = text.find(progress, at + 1)) ++shown;
  std::istringstream rows(text);
  for (std::string row; std::getline(rows, row);) {
    row.erase(0, row.rfind("\r\033[K") == std::string::npos ? 0 : row.rfind("\r\033[K") + 4);
    proved += row.starts_with("proved  alltoall/");
    EXPECT_TRUE(row.starts_with("proved  alltoall/") || row == worlds + " worlds proved, 0 failed\r") << row;
  }
  EXPECT_EQ(proved, expected);
  EXPECT_TRUE(shown > 0 || seconds < 1.5) << "took " << seconds << " s";
  EXPECT_LE(shown, 5 * seconds);
}

TEST(CommandVerify, a_request_that_nothing_can_serve_is_a_failure) {
  const outcome it = run(lsched({"verify", "allreduce", "--op", "band", "--ranks", "2"}));
  EXPECT_EQ(it.status, 1);
  EXPECT_TRUE(contains(it.err, "\"band\" is not defined for f32")) << it.err;
}

}  // namespace
}  // namespace lsched::testing
