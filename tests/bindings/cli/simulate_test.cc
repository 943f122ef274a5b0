// Tests of `lsched simulate`: summaries, traces, GOAL files, noise, and plots.
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/bindings/cli/command_line.h"

namespace lsched::testing {
namespace {

TEST(CommandSimulate, names_of_files_may_hold_any_bytes) {
  const std::string folder = ::testing::TempDir() + "lsched-names-" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  for (const std::string name : {"\xff\xc3.sched", "\x01.sched", "\xc3\xbc.sched"}) {
    const std::string path = folder + "/" + name;
    std::filesystem::copy_file(k_scan, path);
    const outcome as_json = run_well(lsched({"simulate", path, "--json", "-"}));
    EXPECT_TRUE(json::accept(as_json.out.substr(0, as_json.out.find('\n')))) << as_json.out;
    const std::string title = run(lsched({"simulate", path, "--svg", "-"})).out;
    EXPECT_FALSE(contains(title, "\xff") || contains(title, "\x01")) << title;
    EXPECT_EQ(contains(title, "\xc3\xbc.sched"), name == "\xc3\xbc.sched") << title;
  }
  std::filesystem::remove_all(folder);
}

TEST(CommandSimulate, the_last_line_is_the_summary) {
  const outcome it = run_well(lsched({"simulate", "--ranks", "64", "--bytes", "1024", "--json", "-"}));
  const json summary = last_line_of(it.out);
  EXPECT_EQ(summary["engine"], "events");
  EXPECT_EQ(summary["ranks"], 64);
  EXPECT_DOUBLE_EQ(summary["finish_us"].get<double>(), 69.828);  // six hops of 11.638 us
  for (const char* key : {"messages_per_s", "bytes_per_rank", "seconds"}) EXPECT_TRUE(summary.contains(key)) << key;
}

TEST(CommandSimulate, json_has_the_time_of_every_rank) {
  const std::string out = run(lsched({"simulate", "reduce", "--ranks", "5", "--json", "-"})).out;
  const json report = json::parse(out.substr(0, out.find('\n')))["report"];
  const auto finish = report["finish_ps"].get<std::vector<std::uint64_t>>();
  ASSERT_EQ(finish.size(), 5u);
  EXPECT_DOUBLE_EQ(static_cast<double>(*std::ranges::max_element(finish)) / 1e6, report["finish_us"]["last"]);
  EXPECT_DOUBLE_EQ(static_cast<double>(*std::ranges::min_element(finish)) / 1e6, report["finish_us"]["first"]);
}

TEST(CommandSimulate, schedules_of_a_file_are_simulated) {
  const std::string path = k_scan;
  const outcome it = run_well(lsched({"simulate", path, "--json", "-"}));
  EXPECT_DOUBLE_EQ(last_line_of(it.out)["finish_us"].get<double>(), 11.084);  // two messages of 8 bytes
  EXPECT_TRUE(contains(it.out, R"("file":")" + path + R"(")")) << it.out;
  EXPECT_TRUE(contains(it.out, R"("messages":2)")) << it.out;
  const outcome seeds = run(lsched({"simulate", path, "--skew", "lognormal", "--seed", "1", "3"}));
  EXPECT_TRUE(contains(seeds.out, path + ", seed 3")) << seeds.out;
}

TEST(CommandSimulate, a_barrier_has_signals_of_8_bytes) {
  const outcome it =
      run(lsched({"simulate", "barrier", "--algorithm", "dissemination", "--ranks", "16", "--json", "-"}));
  EXPECT_TRUE(contains(it.out, R"("bytes":8)")) << it.out;
  EXPECT_TRUE(contains(it.out, R"("messages":0)")) << it.out;
  EXPECT_TRUE(contains(it.out, R"("signals":64)")) << it.out;
}

TEST(CommandSimulate, a_sparse_allreduce_is_of_typical_lists) {
  words ask{"simulate", "sparse_allreduce", "--algorithm", "oktopk", "--ranks", "16",
            "--count",  "100000",           "--k",         "500",    "--json",  "-"};
  const outcome one = run_well(lsched(ask));
  EXPECT_TRUE(contains(one.out, R"("count":100000,"k":500)")) << one.out;
  ask.insert(ask.end(), {"--round", "2"});  // a round that does not compute boundaries
  EXPECT_LT(last_line_of(run(lsched(ask)).out)["finish_us"].get<double>(),
            last_line_of(one.out)["finish_us"].get<double>());
}

TEST(CommandSimulate, auto_is_the_usual_sparse_allreduce) {
  const words usual{"simulate", "sparse_allreduce", "--json", "-"};
  words chosen = usual;
  chosen.insert(chosen.end(), {"--algorithm", "auto"});
  const auto report_of = [](const words& command) {
    const std::string out = run(lsched(command)).out;
    return out.substr(0, out.find('\n'));
  };
  EXPECT_NE(report_of(usual), "");
  EXPECT_EQ(report_of(chosen), report_of(usual));
}

/// Ok-Topk must take the least time, followed by gTopk, Topk-DSA and TopkA. With about 1 / density ranks, TopkA takes
/// as long as a dense allreduce.
TEST(CommandSimulate, sparse_allreduces_scale_as_published) {
  const auto us = [](words what, const char* ranks) {
    words ask{"simulate", "--json", "-", "--ranks", ranks, "--L", "1", "--o", "750", "--g", "0", "--G", "0.1"};
    ask.insert(ask.end(), what.begin(), what.end());
    return last_line_of(run(lsched(ask)).out)["finish_us"].get<double>();
  };
  const auto sparse = [&](const char* algorithm, const char* ranks) {
    return us({"sparse_allreduce", "--algorithm", algorithm, "--count", "4000000", "--round", "2"}, ranks);
  };
  for (const char* ranks : {"32", "64", "128"}) {
    EXPECT_LT(sparse("oktopk", ranks), sparse("gtopk", ranks)) << ranks;
    EXPECT_LT(sparse("gtopk", ranks), sparse("topkdsa", ranks)) << ranks;
    EXPECT_LT(sparse("topkdsa", ranks), sparse("topka", ranks)) << ranks;
  }
  const words dense{"--algorithm", "rabenseifner", "--bytes", "16000000"};
  EXPECT_LT(sparse("topka", "64"), us(dense, "64"));
  EXPECT_GT(sparse("topka", "128"), us(dense, "128"));
}

TEST(CommandSimulate, prints_what_is_done_before_it_says_what_cannot_be) {
  const outcome it = run(lsched({"simulate", "--ranks", "1", "3", "--L", "0", "--o", "0", "--json", "-"}));
  EXPECT_EQ(it.status, 1);
  EXPECT_TRUE(contains(it.err, "a message takes no time")) << it.err;
  const outcome late =
      run(lsched({"simulate", "--ranks", "8", "1000", "--skew", "linear", "--skew-us", "1e10", "--json", "-"}));
  EXPECT_EQ(late.status, 1);
  EXPECT_TRUE(contains(late.err, "would begin at")) << late.err;
}

TEST(CommandSimulate, warns_of_an_adaptive_sum_that_is_a_mean) {
  const std::string warning = "on one node, adasum/two_level computes the mean of the ranks, not an adaptive sum";
  words ask{"simulate", "adasum", "--algorithm", "two_level", "--ranks", "6"};
  EXPECT_TRUE(contains(run(lsched(ask)).out, "warning: " + warning));
  ask.insert(ask.end(), {"--json", "-"});
  const std::string out = run(lsched(ask)).out;
  EXPECT_EQ(json::parse(out.substr(0, out.find('\n')))["report"]["warning"], warning);
  ask.insert(ask.end(), {"--ranks-per-node", "3"});
  const outcome several = run_well(lsched(ask));
  EXPECT_FALSE(contains(several.out, "warning")) << several.out;
}

TEST(CommandSimulate, starts_and_times_beyond_what_it_counts_are_errors) {
  const std::vector<std::pair<words, std::string>> asks{
      {{"--skew", "linear", "--skew-us", "1e10", "--ranks", "1000"}, "would begin at"},
      {{"--fig9", "--skew-us", "1e12", "--ranks", "32"}, "would begin at"},
      {{"--G", "1e12", "--bytes", "60000"}, "simulated time"},
      {{"--noise-us", "1e12", "--ranks", "64"}, "simulated time"},
      {{"--G", "1e12", "--bytes", "10000000"}, "simulated time"}};
  for (const auto& [ask, complaint] : asks) {
    words all{"simulate"};
    all.insert(all.end(), ask.begin(), ask.end());
    const outcome it = run(lsched(all));
    EXPECT_EQ(it.status, 1) << ask[1];
    EXPECT_TRUE(contains(it.err, complaint)) << it.err;
  }
}

TEST(CommandSimulate, any_generator_and_many_seeds) {
  const outcome it = run(lsched({"simulate", "partial_allreduce", "--algorithm", "tree", "--ranks", "5", "9", "--seed",
                                 "1", "2", "--skew", "lognormal", "--json", "-"}));
  ASSERT_EQ(it.status, 0) << it.err;
  EXPECT_EQ(std::count(it.out.begin(), it.out.end(), '\n'), 8);
  EXPECT_EQ(last_line_of(it.out)["ranks"], 9);
}

TEST(CommandSimulate, counts_the_critical_path) {
  const outcome it =
      run_well(lsched({"simulate", "--ranks", "16", "--bytes", "1000", "--S", "10", "--json", "-", "--critical-path"}));
  EXPECT_EQ(json::parse(it.out.substr(0, it.out.find('\n')))["report"]["critical_path"]["L"], 12);
}

TEST(CommandSimulate, traces_the_first_ranks_and_says_so) {
  const temporary_file file("");
  const outcome it = run(lsched({"simulate", "--ranks", "100", "--trace", file.path}));
  ASSERT_EQ(it.status, 0) << it.err;
  EXPECT_TRUE(contains(it.err, "the first 64 of 100 ranks")) << it.err;
  std::ifstream written(file.path);
  const json trace = json::parse(written);
  EXPECT_TRUE(contains(trace["otherData"]["note"], "the first 64 of 100 ranks"));
  EXPECT_TRUE(std::ranges::all_of(trace["traceEvents"], [](const json& event) { return event["pid"] < 64; }));
}

TEST(CommandSimulate, looks_whether_it_can_write_before_it_works) {
  const outcome it = run(lsched({"simulate", "--ranks", "16777216", "--trace", "/nowhere/at/all.json"}));
  EXPECT_EQ(it.status, 1);
  EXPECT_TRUE(contains(it.err, "/nowhere/at/all.json: cannot be written")) << it.err;
}

TEST(CommandSimulate, goal_files_come_in_and_go_out) {
  const temporary_file file("");
  const outcome out = run_well(lsched({"simulate", "partial_allreduce", "--ranks", "5", "--activation", "majority",
                                       "--initiator", "3", "--skew", "linear", "--goal", file.path, "--json", "-"}));
  std::ifstream written(file.path);
  const std::string text{std::istreambuf_iterator<char>(written), {}};
  EXPECT_TRUE(contains(text, "// resolved for one simulated scenario: skew linear, noise none, seed 1")) << text;
  const outcome in = run_well(lsched({"simulate", file.path, "--json", "-"}));
  EXPECT_EQ(last_line_of(in.out)["finish_us"], last_line_of(out.out)["finish_us"]);
  const outcome proved = run(lsched({"verify", file.path}));
  EXPECT_TRUE(contains(proved.out, "outputs not checked") && contains(proved.out, "0 failed")) << proved.out;
  EXPECT_TRUE(contains(run(lsched({"show", file.path, "--rank", "4"})).out, "rank 4 of 5"));
  const temporary_file calculates("num_ranks 1\nrank 0 {\ncalc 100\n}\n");
  EXPECT_TRUE(contains(run(lsched({"show", calculates.path, "--goal", "-"})).out, "calc 100\n"));
  for (const char* const other : {"--initiator", "--compute"}) {
    const outcome it = run(lsched({"simulate", file.path, other, "1"}));
    EXPECT_EQ(it.status, 2);
    EXPECT_TRUE(contains(it.err, "has no effect on a GOAL program")) << it.err;
  }
}

TEST(CommandSimulate, goal_files_it_cannot_time_are_refused) {
  const std::vector<std::pair<std::string, std::string>> programs{
      {"num_ranks 1\nrank 0 {\ncalc 5 cpu 1\n}\n", "second cpu"},
      {"num_ranks 2\nrank 0 {\nrecv 5b from -1\n}\nrank 1 {\nsend 5b to 0\n}\n", "from any rank"},
      {"num_ranks 2\nrank 0 {\nrecv 5b from 1\n}\nrank 1 {\n}\n", "which no rank sends"},
      {"num_ranks 1\nrank 0 {\ncalk 5\n}\n", "line 3, column "}};
  for (const auto& [text, complaint] : programs) {
    const temporary_file file(text);
    const outcome it = run(lsched({"simulate", file.path}));
    EXPECT_EQ(it.status, 1) << text;
    EXPECT_TRUE(contains(it.err, complaint)) << it.err;
  }
}

TEST(CommandSimulate, skew_and_noise_take_their_time) {
  const auto us = [](const words& options) {
    words ask{"simulate", "--json", "-"};
    ask.insert(ask.end(), options.begin(), options.end());
    return last_line_of(run(lsched(ask)).out)["finish_us"].get<double>();
  };
  EXPECT_GT(us({"--skew", "straggler", "--skew-us", "7000"}), 7000);
  EXPECT_GT(us({"--noise-us", "1000"}), us({}) + 1000);
}

TEST(CommandSimulate, figure_9_says_that_it_is_modelled) {
  const outcome it = run_well(lsched({"simulate", "--fig9", "--ranks", "32", "--json", "-"}));
  const json solo = last_line_of(it.out);
  EXPECT_EQ(solo["kind"], "modelled");
  EXPECT_EQ(solo["nap"], 1);
  const outcome table = run(lsched({"simulate", "--fig9", "--ranks", "8"}));
  EXPECT_TRUE(contains(table.out, "Modelled, not measured: ")) << table.out;
}

}  // namespace
}  // namespace lsched::testing
