// Tests of `lsched bench`: the lines of each benchmark, tuning, and comparisons.
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "build_options.h"
#include "tests/bindings/cli/command_line.h"

namespace lsched::testing {
namespace {

#if LSCHED_HAVE_BENCH
const words k_short_sweep{"--collective", "allreduce,barrier", "--bytes", "4,1K",   "--iterations",
                          "10",           "--cell-seconds",    "0.01",    "--json", "-"};

TEST(CommandBench, a_sweep_has_a_right_line_for_every_cell) {
  words ask{"bench", "coll", "-n", "3", "--algorithm", "all"};
  ask.insert(ask.end(), k_short_sweep.begin(), k_short_sweep.end());
  const outcome it = run_well(lsched(ask));
  std::map<std::string, int> cells;
  for (const json& line : lines_of(it.out)) {
    EXPECT_EQ(line["wrong"], 0) << line;
    EXPECT_GE(line["rounds"], 3) << line;
    EXPECT_GE(line["us_median"], line["us_min"]) << line;
    EXPECT_GE(line["us_p95"], line["us_median"]) << line;
    EXPECT_EQ(line["ranks"], 3);
    for (const char* key : {"form", "algorithm", "transport", "pinned", "oversubscribed", "spin_ns", "mpi"})
      EXPECT_TRUE(line.contains(key)) << key;
    ++cells[line["coll"].get<std::string>() + " " + line["buffers"].get<std::string>() + " " +
            std::to_string(line["bytes"].get<int>()) + (line["in_place"] ? " in place" : "")];
  }
  for (const char* cell :
       {"allreduce malloc 4", "allreduce malloc 1024 in place", "allreduce lsched_alloc 1024", "barrier malloc 0"})
    EXPECT_GE(cells[cell], 2) << cell;  // at least one row for each value of "form"
  EXPECT_EQ(cells.count("barrier malloc 0 in place"), 0u);
}

TEST(CommandBench, every_collective_that_has_an_algorithm_is_right) {
  const outcome listed = run_well(lsched({"list", "--json", "-"}));
  std::set<std::string> collectives;
  for (const json& entry : json::parse(listed.out)) collectives.insert(entry["collective"]);
  std::erase_if(collectives, [](const std::string& name) {  // other benchmarks measure adasum and sparse_allreduce
    return name.starts_with("partial_") || name.starts_with("node_") || name == "neighbor_exchange" ||
           name == "adasum" || name == "sparse_allreduce";
  });
  std::string asked;
  for (const std::string& name : collectives) asked += (asked.empty() ? "" : ",") + name;
  const outcome it =
      run_well(lsched({"bench", "coll", "-n", "3", "--collective", asked, "--algorithm", "all", "--bytes", "4,1K",
                       "--iterations", "5", "--cell-seconds", "0.01", "--json", "-"}));
  for (const json& line : lines_of(it.out)) {
    EXPECT_EQ(line["wrong"], 0) << line;
    collectives.erase(line["coll"].get<std::string>());
  }
  EXPECT_TRUE(collectives.empty()) << *collectives.begin() << " was not measured";
}

TEST(CommandBench, tuning_writes_rules_that_auto_then_goes_by_and_keeps_those_of_other_worlds) {
  const temporary_file table("libsched tuning 1\nallreduce ranks 9 near roomy bytes 0 max ring\n");
  const words tune{"bench", "tune",           "-n",    "3",        "--collective", "allreduce,bcast", "--bytes", "8",
                   "64K",   "--cell-seconds", "0.001", "--tuning", table.path};
  const outcome first = run_well(lsched(tune));
  // Each collective has one row per size, for the fastest algorithm of the collective.
  for (const char* size : {"\n   8  ", "\n 64K  "}) {
    std::size_t rows = 0;
    for (std::size_t at = first.out.find(size); at != std::string::npos; at = first.out.find(size, at + 1)) ++rows;
    EXPECT_EQ(rows, 2u) << first.out;
  }
  ASSERT_EQ(run(lsched(tune)).status, 0);  // a second run replaces the rules
  const std::string text = content_of(table.path);
  EXPECT_TRUE(contains(text, "allreduce ranks 9 near roomy bytes 0 max ring\n")) << text;
  const auto rules = [&](const std::string& start) {
    std::size_t count = 0;
    for (std::size_t at = text.find(start); at != std::string::npos; at = text.find(start, at + 1)) ++count;
    return count;
  };
  EXPECT_EQ(rules("bcast ranks 3 near crowded bytes 0 ") + rules("bcast ranks 3 near roomy bytes 0 "), 1u) << text;
  for (const char* per_core : {"1", "2"}) {  // the result must not depend on the number of cores
    const outcome it = run_well(lsched({"list", "--explain", "--json", "-", "--ranks", "3", "--count", "2", "--tuning",
                                        table.path, "--ranks-per-core", per_core}));
    const bool is_mine = contains(text, std::string(" ranks 3 near ") + (per_core[0] == '1' ? "roomy" : "crowded"));
    for (const json& entry : json::parse(it.out)) {
      if (entry["collective"] != "bcast") continue;
      EXPECT_EQ(contains(entry["reason"].get<std::string>(), "of the tuning table"), is_mine) << entry;
    }
  }
}

TEST(CommandBench, tuning_into_what_is_no_table_is_refused_before_anything_is_measured) {
  const temporary_file other("something else\n");
  const outcome it = run(lsched({"bench", "tune", "--tuning", other.path}));
  EXPECT_NE(it.status, 0);
  EXPECT_TRUE(contains(it.err, "a tuning table must begin with")) << it.err;
  EXPECT_EQ(content_of(other.path), "something else\n");
}

TEST(CommandBench, overlap_measures_each_way_in_each_phase) {
  const outcome it = run_well(lsched({"bench", "overlap", "-n", "2", "--bytes", "1K", "--progress-by", "caller",
                                      "--cell-seconds", "0.01", "--json", "-"}));
  const auto lines = lines_of(it.out);
  ASSERT_EQ(lines.size(), 4u) << it.out;  // memory of malloc and of lsched_alloc, two lines each
  std::map<std::string, int> devices;
  for (const json& line : lines) {
    ++devices[line["device"]];
    EXPECT_EQ(line["progress"], "caller");
    EXPECT_EQ(line["wrong"], 0);
    for (const char* key : {"us_compute", "us_coll", "us_sequence", "us_overlap", "us_again", "us_bound"})
      EXPECT_GT(line[key], 0) << key;
    EXPECT_GE(line["overlap"], 0);
  }
  EXPECT_EQ(devices["core"], 2);
  EXPECT_EQ(devices["sleep"], 2);
}

TEST(CommandBench, launches_of_overlap_are_compared_in_one_table) {
  const std::string path = ::testing::TempDir() + "lsched-overlap-" + std::to_string(getpid()) + ".json";
  run_well(lsched({"bench", "overlap", "-n", "2", "--bytes", "1K", "--progress-by", "caller", "--compute-by", "sleep",
                   "--label", "cable", "--cell-seconds", "0.01", "--json", path}));
  const outcome it = run(lsched({"bench", "compare", path, path}));
  unlink(path.c_str());
  ASSERT_EQ(it.status, 0) << it.err;
  // The output has a heading. Each of the two files adds a line for malloc and a line for lsched_alloc.
  EXPECT_EQ(std::count(it.out.begin(), it.out.end(), '\n'), 5) << it.out;
  for (const char* part : {"overlap %", "A/A", "cable", "sleep"}) EXPECT_TRUE(contains(it.out, part)) << it.out;
}

TEST(CommandBench, ends_quietly_when_its_reader_has_gone) {
  const std::string ask = LSCHED_TEST_COMMAND " bench coll -n 3 --bytes 8 --cell-seconds 0.01 | head -1";
  for (int i = 0; i < 5; ++i) {
    const outcome it = run({"/bin/sh", "-c", ask});
    EXPECT_TRUE(contains(it.out, "coll: ")) << it.out;
    EXPECT_EQ(it.err, "");
  }
}

TEST(CommandBench, adasum_is_measured_beside_the_sum_and_is_right) {
  const outcome it =
      run_well(lsched({"bench", "adasum", "-n", "3", "--bytes", "4,1K,100K", "--tensors", "1,5", "--algorithm",
                       "auto,recursive_doubling,halving,linear", "--cell-seconds", "0.002", "--json", "-"}));
  const auto lines = lines_of(it.out);
  std::map<std::string, int> rows;
  for (const json& line : lines) {
    EXPECT_EQ(line["bench"], "adasum");
    EXPECT_EQ(line["ranks"], 3);
    EXPECT_EQ(line["wrong"], 0) << line;
    EXPECT_GT(line["us_median"], 0);
    ++rows[line["what"]];
    if (line["what"] != "adasum") continue;
    for (const char* key : {"us_sum", "us_dot", "us_exchange", "of_sum"}) EXPECT_GE(line[key], 0) << key;
  }
  EXPECT_EQ(rows["sum"], 3 * 2 * 2);             // sizes, placements (in place or not), kinds of memory
  EXPECT_EQ(rows["adasum"], 3 * 2 * 2 * 2 * 4);  // sizes, numbers of tensors, placements, kinds of memory, algorithms
}

TEST(CommandBench, adasum_is_right_by_every_algorithm_on_any_nodes) {
  for (const char* ranks_per_node : {"", "1", "2"})
    for (const char* ranks : {"2", "3", "4"}) {
      std::map<std::string, std::string> environment;
      if (*ranks_per_node != '\0') environment["LSCHED_RANKS_PER_NODE"] = ranks_per_node;
      const outcome it =
          run(lsched({"bench", "adasum", "-n", ranks, "--bytes", "4,2K", "--tensors", "1,3", "--algorithm",
                      "recursive_doubling,halving,linear,two_level", "--cell-seconds", "0.001", "--json", "-"}),
              environment);
      EXPECT_EQ(it.status, 0) << ranks << " ranks, on a node " << ranks_per_node << it.err << it.out;
      std::size_t rows = 0;
      for (const json& line : lines_of(it.out)) {
        EXPECT_EQ(line["wrong"], 0) << line;
        rows += line["what"] == "adasum" ? 1u : 0u;
      }
      EXPECT_EQ(rows, 2u * 2 * 2 * 2 * 4);  // sizes, numbers of tensors, placements, kinds of memory, algorithms
    }
}

constexpr std::array k_sparse_keys{
    "algorithm",      "ranks",       "n",          "k",         "policy",     "words_recv_max", "words_sent_max",
    "words_meta_max", "bound_words", "over_bound", "us_median", "violations", "words_mean"};

TEST(CommandBench, sparse_counts_alone_and_measures_with_ranks) {
  for (const words& launcher : {words{}, words{"run", "-n", "3"}}) {
    words all = lsched({});
    all.insert(all.end(), launcher.begin(), launcher.end());
    const words command = lsched({"bench", "sparse", "--count", "2000", "--density", "0.02", "--generator", "layered",
                                  "--period", "4", "--json", "-"});
    if (launcher.empty()) all.clear();
    all.insert(all.end(), command.begin(), command.end());
    if (launcher.empty()) all.insert(all.end(), {"--ranks", "3"});
    const outcome it = run_well(all);
    std::map<std::string, int> rows;
    for (const json& line : lines_of(it.out)) {
      if (line["algorithm"] == "mpi_allreduce") continue;
      for (const char* key : k_sparse_keys) EXPECT_TRUE(line.contains(key)) << key << line;
      EXPECT_EQ(line["bench"], "sparse");
      EXPECT_EQ(line["ranks"], 3);
      EXPECT_EQ(line["k"], 40);
      EXPECT_EQ(line["violations"], 0) << line;
      EXPECT_GT(line["words_recv_max"], 0) << line;
      EXPECT_EQ(line["counted"], launcher.empty());
      // The dense algorithms have few steps, but may move more words than the bound.
      const bool is_dense = line["algorithm"] == "dense" || line["algorithm"] == "denseovlp";
      EXPECT_TRUE(is_dense || line["over_bound"] == 0) << line;
      EXPECT_EQ(line["buckets"], line["algorithm"] == "denseovlp" ? 8 : 1);
      if (line["algorithm"] == "sparseloco") {  // a message of 4 + 10 + 60 bytes, for 40 elements
        EXPECT_EQ(line["words_sent_max"], 2 * 74 / 4.0);
        EXPECT_EQ(line["bits_per_element"], 8 * 74 / 2000.0);
      }
      ++rows[line["algorithm"]];
    }
    EXPECT_EQ(rows["oktopk"], 2);
    EXPECT_EQ(rows.size(), 7u) << it.out;
  }
}

TEST(CommandBench, sparse_has_the_dense_allreduce_in_buckets) {
  const auto rows_of = [](const words& launcher, const words& options) {
    words all = lsched(launcher),
          ask = lsched({"bench", "sparse", "--algorithm", "dense,denseovlp", "--iterations", "2"});
    if (launcher.empty()) all.clear();
    all.insert(all.end(), ask.begin(), ask.end());
    all.insert(all.end(), options.begin(), options.end());
    all.insert(all.end(), {"--json", "-"});
    const outcome it = run_well(all);
    std::map<std::string, json> rows;
    for (const json& line : lines_of(it.out)) rows[line["algorithm"]] = line;
    for (const char* name : {"dense", "denseovlp"}) EXPECT_EQ(rows[name].value("violations", 1), 0) << it.out;
    return rows;
  };
  for (const char* ranks : {"1", "3"})
    for (const char* n : {"1", "3", "1000"}) {
      const words there{"run", "-n", ranks};
      const json measured = rows_of(there, {"--count", n, "--buckets", "5", "--compute-us", "100"})["denseovlp"];
      EXPECT_EQ(measured["buckets"], std::min(5, std::stoi(n)));
      EXPECT_EQ(measured["compute_us"], 100);
      EXPECT_GE(measured["us_median"], 30) << "the row has no computing time";
      const int size = std::stoi(ranks);
      EXPECT_GE(measured["words_recv_max"], 2.0 * std::stoi(n) * (size - 1) / size)
          << "every allreduce needs as many words";
      EXPECT_EQ(rows_of(there, {"--count", n})["denseovlp"]["buckets"], std::min(8, std::stoi(n)));
      EXPECT_EQ(rows_of({}, {"--ranks", ranks, "--count", n})["denseovlp"]["buckets"], std::min(8, std::stoi(n)));
    }
  // A count of 3200 makes all blocks equal.
  auto counted = rows_of({}, {"--ranks", "4", "--count", "3200", "--buckets", "10"});
  EXPECT_EQ(counted["denseovlp"]["words_recv_max"], counted["dense"]["words_recv_max"]);
  EXPECT_EQ(counted["denseovlp"]["words_recv_max"], 2 * 3200 * 3 / 4);
  EXPECT_EQ(counted["denseovlp"]["words_meta_max"], 10 * counted["dense"]["words_meta_max"].get<double>());
  EXPECT_EQ(counted["denseovlp"]["bound_words"], counted["dense"]["bound_words"]);
}

/// In rounds 1, 5 and so on, all ranks gather all sums, so the traffic exceeds the bound. The command must report the
/// excess.
TEST(CommandBench, published_thresholds_are_shown_when_asked_for) {
  for (const words& launcher : {words{}, words{"run", "-n", "3"}}) {
    words all = launcher.empty() ? words{} : lsched({"run", "-n", "3"});
    const words command = lsched({"bench", "sparse", "--count", "2000", "--density", "0.02", "--algorithm", "oktopk",
                                  "--boundaries", "all", "--reuse", "4", "--lists-at-once", "1", "--json", "-"});
    all.insert(all.end(), command.begin(), command.end());
    if (launcher.empty()) all.insert(all.end(), {"--ranks", "3"});
    const outcome it = run_well(all);
    std::map<std::string, json> rows;
    for (const json& line : lines_of(it.out))
      if (line["algorithm"] == "oktopk") rows[line["policy"]] = line;
    ASSERT_EQ(rows.size(), 3u) << it.out;
    EXPECT_EQ(rows["reused"]["violations"], 0);
    EXPECT_GT(rows["reused"]["over_bound"], 0);
    EXPECT_GT(rows["reused"]["words_recv_max"], rows["strict"]["words_recv_max"]);
    EXPECT_LT(rows["reused"]["words_meta_max"], rows["strict"]["words_meta_max"]);
    for (const auto& [policy, row] : rows) {
      EXPECT_GT(row["words_mean"], 0) << policy;
      EXPECT_LE(row["words_mean"], std::max(row["words_recv_max"], row["words_sent_max"])) << policy;
    }
  }
}

TEST(CommandBench, partial_rounds_have_as_many_contributors_as_their_policy_says) {
  const outcome it = run_well(
      lsched({"bench",        "partial", "-n",      "3", "--skew",       "rotating", "--skew-us",          "1000",
              "--iterations", "6",       "--bytes", "8", "--activation", "solo",     "quorum(2)+every(4)", "quorum(3)",
              "full",         "--stats", "--json",  "-"}));
  const auto lines = lines_of(it.out);
  ASSERT_EQ(lines.size(), 4u) << it.out;
  const std::vector<std::pair<std::string, double>> least{
      {"solo", 1}, {"quorum(2)+every(4)", 2}, {"quorum(3)", 3}, {"full", 3}};
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const json& line = lines[i];
    EXPECT_EQ(line["bench"], "partial");
    EXPECT_EQ(line["policy"], least[i].first);
    EXPECT_EQ(line["skew"], "rotating");
    EXPECT_EQ(line["ranks"], 3);
    EXPECT_EQ(line["rounds"], 6);
    EXPECT_EQ(line["violations"], 0) << line;
    EXPECT_GE(line["nap_min"], least[i].second);
    EXPECT_GE(line["nap_mean"], line["nap_min"]);
    EXPECT_GT(line["ms_mean"], 0);
    EXPECT_GT(line["ms_simulated"], 0);
    ASSERT_EQ(line["stats"].size(), 3u);
    std::uint64_t in_time = 0;
    for (std::size_t r = 0; r < 3; ++r) {
      const json& mine = line["stats"][r];
      EXPECT_EQ(mine["rank"], r);
      EXPECT_EQ(mine["in_time"].get<int>() + mine["late"].get<int>(), 6 + 2) << line;
      EXPECT_EQ(mine["uncalled"], 0) << line;
      EXPECT_TRUE(mine["lateness_ms"].is_number()) << line;
      in_time += mine["in_time"].get<std::uint64_t>();
    }
    EXPECT_GE(in_time, 8 * least[i].second) << line;
    EXPECT_TRUE(contains(it.err, "not called")) << it.err;
  }
}

TEST(CommandBench, without_barriers_every_contribution_arrives_once) {
  const outcome it =
      run_well(lsched({"bench", "partial", "-n", "3", "--skew", "k_of_p", "--skew-us", "500", "--iterations", "30",
                       "--bytes", "64", "--activation", "solo", "majority+every(5)", "--barrier-free", "--json", "-"}));
  const auto lines = lines_of(it.out);
  ASSERT_EQ(lines.size(), 2u) << it.out;
  for (const json& line : lines) {
    EXPECT_EQ(line["violations"], 0) << line;
    EXPECT_EQ(line["ms_simulated"], nullptr);
  }
  EXPECT_LE(lines[1]["staleness_max"], 4);
}

TEST(CommandBench, engine_has_a_line_for_every_graph_and_every_way_to_commit) {
  std::map<std::string, int> lines;
  for (const char* part : {"graphs", "commit"}) {
    const outcome it = run_well(lsched({"bench", "engine", "--only", part, "--json", "-"}));
    for (const json& line : lines_of(it.out)) {
      EXPECT_GT(line.value(line["bench"] == "commit" ? "us_median" : "ns_per_op", 0.0), 0) << line;
      ++lines[line["what"].get<std::string>() + (line.contains("impl") ? " " + line["impl"].get<std::string>() : "")];
    }
  }
  for (const char* each : {"chain libsched", "fan libsched", "recursive_doubling", "rebind"})
    EXPECT_EQ(lines[each], 1) << each;
  EXPECT_EQ(lines["allreduce libsched"], 2);  // two algorithms have a line each
}

TEST(CommandBench, cost_has_a_right_line_for_every_way_to_spend_a_round) {
  const outcome it = run_well(lsched(
      {"bench", "cost", "-n", "2", "--bytes", "8,16K", "--cell-seconds", "0.002", "--seconds", "0.02", "--json", "-"}));
  std::map<std::string, int> ways;
  for (const json& line : lines_of(it.out)) {
    EXPECT_EQ(line["bench"], "cost");
    EXPECT_EQ(line["wrong"], 0) << line;
    if (line["part"] == "cpu" || line["part"] == "idle") ++ways[line["part"]];
    if (line["part"] == "offer") ++ways["offer " + line["others"].get<std::string>()];
    if (line["part"] == "balanced") ++ways[line["policy"].get<std::string>()];
  }
  const std::map<std::string, int> wanted{{"full", 4},       {"solo", 2},         {"majority", 2},
                                          {"cpu", 2},        {"offer asleep", 2}, {"offer awake", 2},
                                          {"offer last", 2}, {"offer merge", 2},  {"idle", 1}};
  EXPECT_EQ(ways, wanted);
}

TEST(CommandBench, what_cannot_be_compared_is_a_failure_in_one_line) {
  for (const auto& [path, part] :
       std::map<std::string, std::string>{{"/no/such/file", "/no/such/file: no such file or directory"},
                                          {"/dev/null", "/dev/null: the file has no row of"}}) {
    const outcome it = run(lsched({"bench", "compare", path}));
    EXPECT_EQ(it.status, 1);
    EXPECT_TRUE(contains(it.err, part)) << it.err;
    EXPECT_EQ(std::count(it.err.begin(), it.err.end(), '\n'), 1) << it.err;
  }
}

#if LSCHED_HAVE_MPI
TEST(CommandBench, a_sweep_under_an_mpi_launcher_can_be_compared) {
  const std::string path = ::testing::TempDir() + "lsched-coll-" + std::to_string(getpid()) + ".json";
  words ask{LSCHED_TEST_MPIEXEC, "-n", "2", LSCHED_TEST_COMMAND, "bench", "coll"};
  ask.insert(ask.end(), k_short_sweep.begin(), k_short_sweep.end());
  ask.back() = path;
  run_well(ask);
  const outcome it = run(lsched({"bench", "compare", path}));
  unlink(path.c_str());
  ASSERT_EQ(it.status, 0) << it.err;
  for (const char* part : {"allreduce", "barrier", "1 of 1", "MPI"}) EXPECT_TRUE(contains(it.out, part)) << it.out;
}

TEST(CommandBench, all_ways_to_progress_are_measured_in_one_launch_of_mpi) {
  const outcome it = run_well({LSCHED_TEST_MPIEXEC, "-n", "2", LSCHED_TEST_COMMAND, "bench", "overlap", "--bytes", "1K",
                               "--compute-by", "core", "--cell-seconds", "0.01", "--json", "-"});
  std::map<std::string, int> ways;
  for (const json& line : lines_of(it.out))
    ++ways[line["impl"].get<std::string>() + " " + line["progress"].get<std::string>()];
  EXPECT_EQ(ways["libsched thread"], 2);
  EXPECT_EQ(ways["libsched caller"], 2);
  EXPECT_EQ(ways["libsched apart"], std::thread::hardware_concurrency() > 1 ? 2 : 0);
  EXPECT_GE(ways["mpi thread"], 1);
}

TEST(CommandBench, tables_with_rows_of_mpi_fit_a_terminal) {
  for (const char* asked : {"overlap --bytes 1M --compute-by sleep", "coll --bytes 1M", "adasum --bytes 1M"}) {
    const outcome it = run_well(
        {"/bin/sh", "-c",
         std::string(LSCHED_TEST_MPIEXEC " -n 3 " LSCHED_TEST_COMMAND " bench ") + asked + " --cell-seconds 0.001"});
    std::istringstream lines(it.out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
  }
}
#endif

TEST(CommandBench, an_algorithm_that_is_not_proved_for_the_world_is_not_run) {
  const temporary_file stuck(
      "libsched algorithm 1\nname \"two\"\ncollective allreduce\nchunks 5\nscratch s chunks 5\n"
      "if P == 2\n  send in to 1 - r\n  out = op recv from 1 - r in\n"
      "else\n  out = recv from (r + 1) mod P\n  send out to (r - 1) mod P\nend\n");
  const words bench = lsched({"bench", "coll", stuck.path, "--bytes", "20", "--cell-seconds", "0.002"});
  words in_three = lsched({"run", "-n", "3", "--timeout", "40"});
  in_three.insert(in_three.end(), bench.begin(), bench.end());
  const outcome it = run(in_three);
  EXPECT_EQ(it.status, 1);
  EXPECT_TRUE(contains(it.err, "two failed its proof: ")) << it.err;
  const temporary_file alone("libsched algorithm 1\nname \"lone\"\ncollective scan\nneeds P == 1\nout = copy in\n");
  const outcome refused = run(lsched({"bench", "coll", alone.path, "-n", "3"}));
  EXPECT_EQ(refused.status, 1);
  EXPECT_TRUE(contains(refused.err, "lone needs P == 1, but P is 3")) << refused.err;
}
#endif

}  // namespace
}  // namespace lsched::testing
