// Tests of `lsched show`: text, dot, JSON, pictures, GOAL, and algorithm files.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/bindings/cli/command_line.h"

namespace lsched::testing {
namespace {

TEST(CommandShow, cuts_the_vector_of_an_adaptive_sum_into_tensors) {
  const auto sums_of = [](const char* tensors) {
    const outcome it = run_well(lsched({"show", "adasum", "--ranks", "2", "--rank", "1", "--count", "10", "--tensors",
                                        tensors, "--algorithm", "recursive_doubling"}));
    int sums = 0;
    for (auto at = it.out.find("dot_norms"); at != std::string::npos; at = it.out.find("dot_norms", at + 1)) ++sums;
    return sums;
  };
  EXPECT_EQ(sums_of("1"), 1);
  EXPECT_EQ(sums_of("3"), 3);
  EXPECT_EQ(sums_of("12"), 10) << "two regions are empty";
}

TEST(CommandShow, prints_sparse_allreduces) {
  const outcome text = run_well(lsched(
      {"show", "sparse_allreduce", "--algorithm", "topka", "--ranks", "3", "--all", "--count", "50", "--k", "7"}));
  EXPECT_TRUE(contains(text.out, "\nname \"sparse_allreduce/topka\"\n")) << text.out;
  EXPECT_TRUE(contains(text.out, " lists 7 ")) << text.out;
  EXPECT_TRUE(contains(text.out, "\nrank 2 of 3\n")) << text.out;
  EXPECT_EQ(run(lsched({"show", "sparse_allreduce", "--ranks", "3"})).status, 0);
  const outcome none = run(lsched({"show", "sparse_allreduce", "--algorithm", "ring"}));
  EXPECT_EQ(none.status, 2);
  EXPECT_TRUE(contains(none.err,
                       "\"ring\" is not a name that `lsched list` shows for sparse_allreduce; available: auto, oktopk"))
      << none.err;
}

TEST(CommandShow, prints_text_dot_and_json_of_the_rank_asked_for) {
  const outcome text = run_well(lsched({"show", "allreduce", "--ranks", "6", "--rank", "5"}));
  EXPECT_EQ(text.out.rfind("libsched schedule 3\n", 0), 0u);
  EXPECT_TRUE(contains(text.out, "\nrank 5 of 6\n")) << text.out;

  const outcome dot = run(lsched({"show", "barrier", "--ranks", "3", "--all", "--dot", "-"}));
  std::size_t graphs = 0;
  for (auto at = dot.out.find("digraph"); at != std::string::npos; at = dot.out.find("digraph", at + 1)) ++graphs;
  EXPECT_EQ(graphs, 3u) << dot.out;

  const outcome parsed = run_well(lsched({"show", "partial_allreduce", "--ranks", "3", "--rank", "2", "--activation",
                                          "majority", "--seed", "9", "--json", "-"}));
  const json program = json::parse(parsed.out);
  EXPECT_EQ(program["rank"], 2);
  EXPECT_EQ(program["activation"], "majority");
  EXPECT_EQ(program["seed"], 9);
  EXPECT_LT(program["exit"], program["ops"].size());
}

TEST(CommandShow, writes_a_world_as_goal) {
  const outcome text =
      run_well(lsched({"show", "partial_allreduce", "--ranks", "3", "--goal", "-", "--initiator", "2"}));
  EXPECT_EQ(text.out.rfind("num_ranks 3\n\nrank 0 {\n// libsched: partial_allreduce", 0), 0u) << text.out;
  EXPECT_TRUE(contains(text.out, "rank 2 alone calls")) << text.out;
  for (const std::string form : {"--goal", "--svg"}) {
    const outcome absent = run(lsched({"show", "partial_allreduce", "--ranks", "3", form, "-", "--initiator", "3"}));
    EXPECT_EQ(absent.status, 2);
    EXPECT_TRUE(contains(absent.err, "--initiator: rank 3 does not exist in a world of 3 ranks")) << absent.err;
  }
}

TEST(CommandShow, an_algorithm_file_may_be_written_over_itself) {
  const std::string text = content_of(k_ring);
  const temporary_file own(text);
  EXPECT_EQ(run(lsched({"show", own.path, "--algorithm-file", own.path})).status, 0);
  EXPECT_EQ(content_of(own.path), text);
  const temporary_file other("root:x:0:0\n");
  for (const std::string& path : {other.path, std::string(k_scan)}) {
    const outcome it = run(lsched({"show", path, "--algorithm-file", "-"}));
    EXPECT_EQ(it.status, 1);
    EXPECT_EQ(it.err, "lsched: LSCHED_ERR_ARGUMENT: " + path +
                          ": the file is neither an algorithm file nor an MSCCL program\n");
  }
}

TEST(CommandShow, counts_the_steps_of_a_picture) {
  const std::string one = run(lsched({"show", "allreduce", "--ranks", "1", "--svg", "-"})).out;
  EXPECT_TRUE(contains(one, ": 1 step</text>")) << one;
  EXPECT_TRUE(contains(run(lsched({"show", k_scan, "--svg", "-"})).out, ": 8 steps</text>"));
}

}  // namespace
}  // namespace lsched::testing
