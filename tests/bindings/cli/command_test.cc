// Tests of `lsched` that concern several commands: help, refused command lines, failures, and files.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/c/lsched.h"
#include "tests/bindings/cli/command_line.h"
#include "tests/support/shell.h"
#include "tests/support/wait_until.h"

namespace lsched::testing {
namespace {

TEST(Command, help_and_version_succeed) {
  const outcome version = run_well(lsched({"--version"}));
  EXPECT_EQ(version.out, std::string("lsched ") + lsched_version() + " (ABI " + std::to_string(LSCHED_ABI) + ")\n");
  for (const words& arguments :
       {words{}, words{"info"}, words{"list"}, words{"show"}, words{"run"}, words{"simulate"}, words{"soak"}}) {
    words with_help = arguments;
    with_help.emplace_back("--help");
    const outcome help = run_well(lsched(with_help));
    EXPECT_TRUE(contains(help.out, "Example:  lsched ")) << help.out;
  }
}

TEST(Command, without_a_command_prints_its_help) {
  for (const words& arguments : {words{}, words{"bench"}}) {
    if (!arguments.empty() && !LSCHED_HAVE_BENCH) continue;
    words with_help = arguments;
    with_help.emplace_back("--help");
    const outcome bare = run_well(lsched(arguments));
    EXPECT_EQ(bare.err, "");
    EXPECT_EQ(bare.out, run(lsched(with_help)).out);
  }
}

TEST(Command, sizes_have_one_syntax) {
  const auto printed = [](words command) {  // the first line has no wall clock times
    const outcome it = run_well(lsched(std::move(command)));
    return it.out.substr(0, it.out.find('\n'));
  };
  const std::string plain = printed({"simulate", "--ranks", "3", "--bytes", "65536", "--S", "1024", "--json", "-"});
  const std::string proof = printed({"verify", "bcast", "--ranks", "3", "--eager", "65536"});
  EXPECT_NE(plain, printed({"simulate", "--ranks", "3", "--bytes", "65537", "--S", "1024", "--json", "-"}));
  for (const std::string size : {"64K", "64k", "64KiB", "65536"}) {
    EXPECT_EQ(plain, printed({"simulate", "--ranks", "3", "--bytes", size, "--S", "1K", "--json", "-"})) << size;
    EXPECT_EQ(proof, printed({"verify", "bcast", "--ranks", "3", "--eager", size})) << size;
  }
}

TEST(Command, words_that_make_no_sense_end_with_2) {
  const std::vector<std::pair<words, std::string>> mistakes{
      {{"lits"}, "\"lits\""},
      {{"list", "--rnaks", "3"}, "--rnaks"},
      {{"list", "--ranks", "0"}, "\"0\" is not a whole number from 1 to 1048576"},
      {{"list", "--count", "-1"}, "--count"},
      {{"show"}, "COLLECTIVE"},
      {{"show", "barrier", "--rank", "0", "--all"}, "--all"},
      {{"show", "barrier", "--ranks", "3", "--rank", "3"}, "--rank: rank 3 does not exist in a world of 3 ranks"},
      {{"show", "alreduce"},
       "COLLECTIVE: \"alreduce\" is not a name that `lsched list` shows; did you mean allreduce?"},
      {{"show", "allreduce", "--algorithm", "magic"}, "for allreduce; available: auto, "},
      {{"show", "sparse_allreduce", "--algorithm", "magic"}, "for sparse_allreduce; available: auto, oktopk"},
      {{"show", ""}, "the value is empty"},
      {{"list", ""}, "the value is empty"},
      {{"simulate", ""}, "the value is empty"},
      {{"show", k_scan, "--count", "3"}, "--count: the file determines this value"},
      {{"show", k_scan, "--seed", "3"}, "--seed: the file determines this value"},
      {{"show", k_scan, "--mean"}, "--mean: the file determines this value"},
      {{"show", k_scan, "--algorithm", "ring"}, "--algorithm: the file determines this value"},
      {{"show", k_ring, "--algorithm", "ring"}, "--algorithm: the file determines the algorithm"},
      {{"show", "allreduce", "--algorithm-file", "-"}, "takes a file, but \"allreduce\" is not a path"},
      {{"show", k_ring, "--algorithm-file", "-", "--all"}, "cannot be combined with --all"},
      {{"show", k_ring, "--algorithm-file", "-", "--svg", "-"}, "--algorithm-file: cannot be combined with --svg"},
      {{"show", "allreduce", "--activation", "solo"}, "allreduce has no activation policy"},
      {{"list", "allreduce", "--activation", "solo"}, "allreduce has no activation policy"},
      {{"verify", "sparse_allreduce", "--activation", "solo"}, "sparse_allreduce has no activation policy"},
      {{"show", "bcast", "--root", "4"}, "--root: rank 4 does not exist in a world of 4 ranks"},
      {{"list", "--root", "9"}, "--root: rank 9 does not exist"},
      {{"verify", k_scan, "--promise", "bcast", "--root", "3"}, "--root: rank 3 does not exist"},
      {{"show", "partial_allreduce", "--activation", "quorum(5)"}, "quorum(5) needs a number from 1 to 4"},
      {{"list", "--activation", "quorum(9)"}, "quorum(9) needs a number from 1 to 8"},
      {{"verify", "partial_allreduce", "--ranks", "2-4", "--activation", "quorum(5)"}, "quorum(5) needs"},
      {{"simulate", "partial_allreduce", "--ranks", "8", "4", "--activation", "quorum(5)"}, "quorum(5) needs"},
      {{"soak", "--activation", "quorum(5)"}, "quorum(5) needs a number from 1 to 4"},
      {{"simulate", "alreduce"}, "did you mean allreduce?"},
      {{"simulate", "--algorithm", "magic"}, "\"magic\" is not a name that `lsched list` shows"},
      {{"simulate", "partial_sparse_allreduce"}, "cannot be simulated"},
      {{"help", "bogus"}, "there is no command"},
      {{"simulate", "--engine", "window"}, "--engine"},
      {{"simulate", "--level", "4:1:1"}, "--level"},
      {{"simulate", "--ranks", "2", "3", "--trace", "/dev/null"}, "one simulation"},
      {{"simulate", "--ranks", "2", "3", "--goal", "/dev/null"}, "one simulation"},
      {{"simulate", k_scan, "--ranks", "2"}, "--ranks: the file determines this value"},
      {{"simulate", k_scan, "--ranks-per-node", "2"}, "--ranks-per-node: the file determines this value"},
      {{"simulate", "--activation", "solo", k_scan}, "--activation: the file determines this value"},
      {{"simulate", k_scan, "--fig9"}, "--fig9: cannot be used with a file"},
      {{"simulate", "--initiator", "3", k_scan}, "rank 3 does not exist"},
      {{"simulate", "--initiator", "1", k_scan}, "not majority"},
      {{"simulate", "partial_allreduce", "--activation", "majority", "--ranks", "4", "--initiator", "4"},
       "rank 4 does not exist in a world of 4 ranks"},
      {{"simulate", "--initiator", "3"}, "--activation majority"},
      {{"simulate", "partial_allreduce", "--initiator", "3"}, "--activation majority"},
      {{"simulate", "--activation", "full"}, "a partial collective"},
      {{"simulate", "--skew-us", "5"}, "--skew"},
      {{"simulate", "--fig9", "--skew", "linear"}, "cannot be combined with --skew"},
      {{"simulate", "--fig9", "--seed", "2"}, "cannot be combined with --seed"},
      {{"simulate", "barrier", "--fig9"}, "cannot be combined with COLLECTIVE"},
      {{"simulate", "--fig9", "--bytes", "8", "64"}, "a single size"},
      {{"simulate", "--calibrate", "--ranks", "2"}, "cannot be combined with --ranks"},
      {{"simulate", "barrier", "--algorithm", "dissemination", "--bytes", "1"}, "8 bytes"},
      {{"simulate", "--level", "4:nan:1:1:1"}, "times in ns from 0 to 1e12"},
      {{"simulate", "--level", "2.7:1:1:1:1"}, "a whole number of ranks"},
      {{"simulate", "--seed", "-1"}, "--seed"},
      {{"simulate", "--bytes", "much"}, "\"much\" is not a number of bytes such as 64, 64K, 1MiB or 2G"},
      {{"simulate", "--bytes", "1T,1K"}, "\"1T,1K\" is not a number of bytes"},
      {{"simulate", "--bytes", "999999T"}, "\"999999T\" is not a size from 0 to"},
      {{"verify", "allreduce", "--eager", "0"}, "\"0\" is not a size from 1 on"},
      {{"run", "-np", "two", "true"}, "\"two\" is not a whole number"},
      {{"show", "barrier", "--ranks", "2", "--seed", "99999999999999999999"}, "--seed"},
      {{"soak", "--activation", "sometimes"}, "--activation"},
      {{"soak", "--count", "2"}, "--count"},
      {{"soak", "--iterations", "0"}, "\"0\" is not a whole number from 1 on"},
      {{"soak", "--timeout", "nan"}, "--timeout"},
      {{"soak", "--stops", "0"}, "--stops"},
      {{"soak", "--algorithm", "magic"}, "--algorithm"},
      {{"verify"}, "COLLECTIVE"},
      {{"verify", "allreduce", "--all"}, "COLLECTIVE"},
      {{"verify", "--all", "--sample"}, "--sample"},
      {{"verify", "allreduce", "--algorithm", "magic"},
       "\"magic\" is not a name that `lsched list` shows for allreduce"},
      {{"verify", "allreduce", "--algorithm", "auto"}, "--algorithm: auto cannot be verified"},
      {{"verify", "alreduce"}, "COLLECTIVE: \"alreduce\" is not a name that `lsched list` shows"},
      {{"verify", "--all", "--algorithm", "magic"}, "--algorithm: \"magic\" is not a name that `lsched list` shows"},
      {{"verify", k_scan, "--ranks", "4"}, "--ranks: the file determines this value"},
      {{"verify", "allreduce", "--in-place"}, "--in-place: applies only to a schedule file"},
      {{"verify", "allreduce", "--ranks", "5-1"}, "\"5-1\" is not a list of numbers and ranges"},
      {{"verify", "allreduce", "--ranks", "1-"}, "--ranks"},
      {{"verify", "allreduce", "--count", "1,,2"}, "--count"},
      {{"run", "-n", "0", "true"}, "--ranks"},
      {{"run", "-n", "two", "true"}, "\"two\" is not a whole number"},
      {{"run", "-n", "2"}, "PROGRAM"},
      {{"run", "true"}, "--ranks"},
      {{"run", "-n", "2", "--bnid", "true"}, "--bnid"},
  };
  for (const auto& [arguments, part] : mistakes) {
    const outcome it = run(lsched(arguments));
    EXPECT_EQ(it.status, 2) << part << ": " << it.err;
    EXPECT_TRUE(contains(it.err, part)) << part << ": " << it.err;
    EXPECT_EQ(it.out, "");
  }
}

#if LSCHED_HAVE_BENCH
TEST(Command, mistakes_in_benchmarks_are_found_before_any_rank_starts) {
  const std::vector<std::pair<words, std::string>> mistakes{
      {{"bench", "bogus"}, "Try `lsched bench --help`"},
      {{"bench", "fig9", "--bytes", "64,6"}, "6 is not a positive multiple of 4"},
      {{"bench", "fig9", "--bytes", "much"}, "\"much\" is not a number of bytes"},
      {{"bench", "fig9", "--iterations", "0"}, "Try `lsched bench fig9 --help`"},
      {{"bench", "partial", "--activation", "some"}, "is not an activation policy"},
      {{"bench", "partial", "--activation", "quorum(9)"}, "quorum(9) needs a number from 1 to 8"},
      {{"bench", "partial", "--skew", "some"}, "--skew"},
      {{"bench", "coll", ""}, "\"\" is not a path"},
      {{"bench", "coll", "allreduce"}, "\"allreduce\" is not a path (\".\" or \"/\" is missing)"},
      {{"bench", "partial", "--bytes", "6"}, "6 is not a positive multiple of 4"},
      {{"bench", "coll", "--algorithm", "magic"}, "--algorithm"},
      {{"bench", "coll", "--collective", "allreduce,bogus"}, "--collective"},
      {{"bench", "overlap", "--progress-by", "magic"}, "--progress-by"},
      {{"bench", "overlap", "--compute-by", "magic"}, "--compute-by"},
      {{"bench", "cost", "--only", "something"}, "--only"},
      {{"bench", "engine", "--only", "something"}, "--only"},
      {{"bench", "adasum", "--algorithm", "ring"}, "--algorithm"},
      {{"bench", "adasum", "--tensors", "0"}, "--tensors"},
      {{"bench", "sparse", "--generator", "flat"}, "--generator"},
      {{"bench", "sparse", "--algorithm", "ring"}, "--algorithm"},
      {{"bench", "sparse", "--density", "2"}, "--density"},
      {{"bench", "sparse", "--period", "0"}, "--period"},
      {{"bench", "sparse", "--buckets", "0"}, "--buckets"},
      {{"bench", "sparse", "--compute-us", "10"}, "--compute-us"},
      {{"bench", "sparse", "--figure", "1"}, "--figure"},
      {{"simulate", "--count", "5"}, "sparse_allreduce"},
      {{"simulate", "sparse_allreduce", "--bytes", "8"}, "--bytes"},
      {{"verify", "allreduce", "--k", "5"}, "--k"},
      {{"verify", "sparse_allreduce", "--algorithm", "ring"}, "--algorithm"},
      {{"bench", "compare"}, "FILE"},
  };
  for (const auto& [arguments, part] : mistakes) {
    const outcome it = run(lsched(arguments));
    EXPECT_EQ(it.status, 2) << part << ": " << it.err;
    EXPECT_TRUE(contains(it.err, part)) << it.err;
    EXPECT_EQ(std::count(it.err.begin(), it.err.end(), '\n'), 2) << it.err;
  }
}

TEST(Command, a_benchmark_that_cannot_write_says_so_once_before_it_measures) {
  for (const words& arguments : {words{"bench", "fig9", "-n", "3", "--json", "/no/such/folder/file"},
                                 words{"bench", "fig9", "-n", "3", "--plot", "/no/such/folder/file.png"},
                                 words{"bench", "partial", "-n", "3", "--json", "/no/such/folder/file"},
                                 words{"bench", "coll", "-n", "3", "--json", "/no/such/folder/file"},
                                 words{"bench", "overlap", "-n", "3", "--json", "/no/such/folder/file"},
                                 words{"bench", "adasum", "-n", "3", "--json", "/no/such/folder/file"},
                                 words{"bench", "cost", "-n", "3", "--json", "/no/such/folder/file"}}) {
    const outcome it = run(lsched(arguments));
    EXPECT_EQ(it.status, 1);
    EXPECT_EQ(it.err.rfind("lsched: cannot write /no/such/folder/file", 0), 0u) << it.err;
    EXPECT_EQ(std::count(it.err.begin(), it.err.end(), '\n'), 2) << it.err;  // one line is from the launcher
  }
}
#endif

TEST(Command, failures_of_the_library_are_one_line_and_1) {
  const std::vector<std::pair<words, std::string>> requests{
      {{"show", "allreduce", "--op", "band", "--dtype", "f32"}, "lsched: LSCHED_ERR_ARGUMENT: "},
      {{"show", "/etc/passwd"}, "lsched: LSCHED_ERR_ARGUMENT: /etc/passwd: the file is not an algorithm file"},
  };
  for (const auto& [arguments, start] : requests) {
    const outcome it = run(lsched(arguments));
    EXPECT_EQ(it.status, 1) << it.err;
    EXPECT_EQ(it.err.rfind(start, 0), 0u) << it.err;
    EXPECT_EQ(std::count(it.err.begin(), it.err.end(), '\n'), 1) << it.err;
  }
}

// SIGHUP must end the command. MPI's libraries, which the command links, would handle SIGHUP and print a message
// instead.
TEST(Command, a_hangup_ends_it) {
  const std::string path = ::testing::TempDir() + "lsched-hangup-" + std::to_string(getpid());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  signal(SIGHUP, SIG_DFL);  // nohup may have started the test, which then inherits an ignored SIGHUP
  program it(lsched({"verify", path}));
  int end = -1;  // open() succeeds after the command has opened the fifo for reading
  wait_until([&] { return (end = open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC)) >= 0; }, k_limit);
  it.send(SIGHUP);
  EXPECT_EQ(it.finish(), 128 + SIGHUP) << it.err();
  close(end);
  unlink(path.c_str());
}

TEST(Command, output_that_finds_no_room_is_a_failure) {
  for (const std::string asked :
       {"--help", "list", "show barrier --ranks 3", "verify barrier --ranks 3 --json -", "simulate"}) {
    const auto told = run_shell(LSCHED_TEST_COMMAND " " + asked + " 2>&1 > /dev/full");
    EXPECT_EQ(told.status, 1) << asked;
    EXPECT_TRUE(contains(told.output, "standard output: No space left")) << asked << ": " << told.output;
  }
}

TEST(Command, says_why_a_file_cannot_be_read) {
  const std::vector<words> readers {
    {"verify"}, {"trace"}, {"simulate"},
#if LSCHED_HAVE_BENCH
    {
      "bench", "compare"
    }
#endif
  };
  const std::vector<std::pair<std::string, std::string>> files{
      {"/dev", "/dev: is a directory\n"},
      {"/no/such/file", "/no/such/file: no such file or directory\n"},
      {"/dev/zero", "/dev/zero: the file exceeds the limit of 256 MiB\n"}};
  for (const words& reader : readers)
    for (const auto& [path, why] : files) {
      words command = reader;
      command.push_back(path);
      const outcome it = run(lsched(command));
      EXPECT_EQ(it.status, 1) << reader.back() << " " << path;
      EXPECT_EQ(it.out, "") << reader.back() << " " << path;
      EXPECT_EQ(it.err, "lsched: LSCHED_ERR_ARGUMENT: " + why) << reader.back();
    }
}

TEST(Command, says_what_is_wrong_with_a_file_and_with_which) {
  const std::vector<std::tuple<words, std::string, std::string>> cases{
      {{"trace", "--svg", "/dev/null"}, R"({"traceEvents":[]})", "the trace contains no op of a schedule"},
      {{"trace"}, "", "line 1, column 1: the file is not valid JSON"},
      {{"postmortem"}, "libsched", "not a recording"},
      {{"simulate"}, "// GOAL\nnum_ranks x\n", "line 2, column 11: expected a number (the number of ranks)"},
      {{"verify"}, "rank 0 {\n}\n", "not an algorithm file, a schedule file, an MSCCL program or a GOAL program"},
      {{"show"}, "libsched schedule 9\n", "line 1, column 19"},
  };
  for (const auto& [command, content, why] : cases) {
    const temporary_file given(content);
    words all = command;
    all.push_back(given.path);
    const outcome it = run(lsched(all));
    EXPECT_EQ(it.status, 1) << it.err;
    EXPECT_TRUE(contains(it.err, given.path + ": ") && contains(it.err, why)) << it.err << " instead of " << why;
  }
}

TEST(Command, a_byte_order_mark_is_no_part_of_a_text) {
  const std::string mark = "\xef\xbb\xbf";
  const temporary_file schedules(mark + content_of(k_scan));
  EXPECT_EQ(run(lsched({"verify", schedules.path})).status, 0);
  const temporary_file algorithm(mark + content_of(k_ring));
  EXPECT_EQ(run(lsched({"show", algorithm.path})).status, 0);
  const temporary_file program(mark + run(lsched({"show", "barrier", "--goal", "-"})).out);
  EXPECT_EQ(run(lsched({"simulate", program.path})).status, 0);
  const temporary_file msccl(mark +
                             content_of(LSCHED_TEST_SOURCE_DIR "/tests/collectives/written/msccl/all_pairs.xml"));
  EXPECT_EQ(run(lsched({"verify", msccl.path, "--ranks", "3", "--count", "12"})).status, 0);
}

TEST(Command, a_file_of_some_numbers_of_ranks_is_taken_with_one_of_them) {
  const temporary_file of_five(broadcast("five", "needs P mod 5 == 0\n"));
  const outcome shown = run(lsched({"show", of_five.path}));
  EXPECT_TRUE(contains(shown.out, " of 5\n")) << shown.out << shown.err;
  const temporary_file of_sixteen(broadcast("sixteen", "needs P == 16\n"));
  const outcome timed = run(lsched({"simulate", of_sixteen.path}));
  EXPECT_TRUE(contains(timed.out, "16 ranks, ")) << timed.out << timed.err;
  EXPECT_TRUE(contains(run(lsched({"show", of_sixteen.path, "-n", "3"})).err, "sixteen needs P == 16, but P is 3"));
#if LSCHED_HAVE_BENCH
  const outcome measured = run_well(lsched({"bench", k_ring, "--bytes", "8,64", "--cell-seconds", "0.002"}));
  EXPECT_TRUE(contains(measured.out, "allreduce/my_ring compared with the best other algorithm")) << measured.out;
  EXPECT_TRUE(contains(measured.out, "auto takes\n")) << measured.out;
  EXPECT_LT(std::count(measured.out.begin(), measured.out.end(), '\n'), 15) << measured.out;
#endif
}

TEST(Command, files_are_kept_until_there_is_something_else_to_hold) {
  const temporary_file stuck("libsched algorithm 1\nname \"ends\"\ncollective scan\nout = recv from (r + 1) mod P\n");
  for (const char* const command : {"show", "simulate"}) {
    const temporary_file kept("kept");
    EXPECT_EQ(run(lsched({command, stuck.path, "--ranks", "3", "--svg", kept.path})).status, 1);
    EXPECT_EQ(content_of(kept.path), "kept") << command;
    EXPECT_EQ(run(lsched({command, k_ring, "--ranks", "3", "--svg", kept.path})).status, 0);
    EXPECT_EQ(content_of(kept.path).substr(0, 5), "<?xml") << command;
  }
  const temporary_file kept("kept");
  EXPECT_EQ(
      run(lsched({"show", k_ring, "--count", "1", "--ranks", "9", "--algorithm", "x", "--json", kept.path})).status, 2);
  EXPECT_EQ(content_of(kept.path), "kept");
}

TEST(Command, usual_counts_are_multiples_of_equal_chunks) {
  const std::string program = LSCHED_TEST_SOURCE_DIR "/tests/collectives/written/msccl/all_pairs.xml";
  EXPECT_EQ(run(lsched({"show", program})).status, 0);
  const outcome proved = run(lsched({"verify", program}));
  EXPECT_TRUE(contains(proved.out, "3 ranks, count 6: ") && contains(proved.out, "\n6 worlds proved, 0 failed\n"))
      << proved.out;
  EXPECT_TRUE(contains(run(lsched({"verify", program, "--count", "7"})).err, "the count must be a multiple of 6"));
  const outcome timed = run(lsched({"simulate", program}));
  EXPECT_TRUE(contains(timed.out, "3 ranks, 1026 B")) << timed.out << timed.err;
}

}  // namespace
}  // namespace lsched::testing
