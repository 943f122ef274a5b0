// Tests of the command `lsched` from outside: the output and the exit status for a command line.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/c/lsched.h"
#include "build_options.h"
#include "collectives/algorithm/collective.h"
#include "collectives/sparse/sparse_allreduce.h"
#include "libsched/transport/shm/shm_endpoint.h"
#include "tests/support/shared_memory_names.h"
#include "tests/support/shell.h"

namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;
using nlohmann::json;
using words = std::vector<std::string>;

constexpr std::chrono::seconds k_limit = 60s;
constexpr const char* k_scan = LSCHED_TEST_SOURCE_DIR "/docs/examples/scan.sched";
constexpr const char* k_ring = LSCHED_TEST_SOURCE_DIR "/docs/examples/my_ring.alg";

/// A process of the program under test. The process is killed by the destructor and at a time limit.
class program {
 public:
  explicit program(const words& command, const std::map<std::string, std::string>& environment = {})
      : deadline_(clock::now() + k_limit) {
    std::array<int, 2> out{};
    std::array<int, 2> err{};
    if (pipe2(out.data(), O_CLOEXEC) != 0 || pipe2(err.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
    std::vector<char*> arguments;
    for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    process_ = fork();
    if (process_ == 0) {
      alarm(static_cast<unsigned>(k_limit.count()) + 5);
      dup2(out[1], STDOUT_FILENO);
      dup2(err[1], STDERR_FILENO);
      for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
      execvp(arguments[0], arguments.data());
      _exit(125);
    }
    close(out[1]);
    close(err[1]);
    streams_ = {stream{out[0], {}}, stream{err[0], {}}};
  }
  program(const program&) = delete;
  program& operator=(const program&) = delete;
  ~program() {
    if (process_ > 0) {
      ::kill(process_, SIGKILL);
      waitpid(process_, nullptr, 0);
    }
    for (stream& it : streams_)
      if (it.descriptor >= 0) close(it.descriptor);
  }

  /// Reads output until the program and all programs that it has started have closed their output. Returns the exit
  /// status, 128 + n if signal n has ended the program, or -1 if the time limit has passed.
  int finish() {
    while (streams_[0].descriptor >= 0 || streams_[1].descriptor >= 0)
      if (!read_some()) return -1;
    int how = 0;
    if (waitpid(process_, &how, 0) != std::exchange(process_, 0)) return -1;
    return WIFSIGNALED(how) ? 128 + WTERMSIG(how) : WEXITSTATUS(how);
  }

  /// Reads until standard output (for wait_for_error: standard error) contains `text` `times` times. Returns false if
  /// the output ends before that.
  bool wait_for_output(const std::string& text, int times) { return wait_for(0, text, times); }
  bool wait_for_error(const std::string& text, int times) { return wait_for(1, text, times); }

  void send(int signal) const { ::kill(process_, signal); }
  pid_t process() const { return process_; }
  const std::string& out() const { return streams_[0].text; }
  const std::string& err() const { return streams_[1].text; }

 private:
  struct stream {
    int descriptor = -1;
    std::string text{};
  };

  bool wait_for(std::size_t which, const std::string& text, int times) {
    const auto seen = [&] {
      const std::string& all = streams_[which].text;
      int count = 0;
      for (auto at = all.find(text); at != std::string::npos; at = all.find(text, at + 1)) ++count;
      return count >= times;
    };
    while (!seen())
      if (streams_[which].descriptor < 0 || !read_some()) return false;
    return true;
  }

  bool read_some() {
    std::array<pollfd, 2> waits{};
    for (std::size_t i = 0; i < 2; ++i) waits[i] = {streams_[i].descriptor, POLLIN, 0};
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - clock::now());
    if (left <= 0ms || poll(waits.data(), waits.size(), static_cast<int>(left.count())) <= 0) return false;
    for (std::size_t i = 0; i < 2; ++i) {
      if (waits[i].revents == 0) continue;
      std::array<char, 4096> piece{};
      const ssize_t got = read(streams_[i].descriptor, piece.data(), piece.size());
      if (got > 0)
        streams_[i].text.append(piece.data(), static_cast<std::size_t>(got));
      else
        close(std::exchange(streams_[i].descriptor, -1));
    }
    return true;
  }

  clock::time_point deadline_;
  pid_t process_ = -1;
  std::array<stream, 2> streams_{};
};

struct outcome {
  int status = -1;
  std::string out;
  std::string err;
};

outcome run(words command, const std::map<std::string, std::string>& environment = {}) {
  program it(command, environment);
  const int status = it.finish();
  return {status, it.out(), it.err()};
}

words lsched(words arguments) {
  arguments.insert(arguments.begin(), LSCHED_TEST_COMMAND);
  return arguments;
}

/// Returns the command line of `lsched run`, with `options`, whose ranks run a shell script.
words shell_ranks(words options, const std::string& script) {
  words command{"run"};
  command.insert(command.end(), options.begin(), options.end());
  for (const char* word : {"/bin/sh", "-c"}) command.emplace_back(word);
  command.push_back(script);
  return lsched(std::move(command));
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// --- words, help, exit statuses ----------------------------------------------------------------------------

TEST(Command, help_and_version_succeed) {
  const outcome version = run(lsched({"--version"}));
  EXPECT_EQ(version.status, 0);
  EXPECT_EQ(version.out, std::string("lsched ") + lsched_version() + " (ABI " + std::to_string(LSCHED_ABI) + ")\n");
  for (const words& arguments :
       {words{}, words{"info"}, words{"list"}, words{"show"}, words{"run"}, words{"simulate"}, words{"soak"}}) {
    words with_help = arguments;
    with_help.emplace_back("--help");
    const outcome help = run(lsched(with_help));
    EXPECT_EQ(help.status, 0) << help.err;
    EXPECT_TRUE(contains(help.out, "Example:  lsched ")) << help.out;
  }
}

TEST(Command, without_a_command_prints_its_help) {
  for (const words& arguments : {words{}, words{"bench"}}) {
    if (!arguments.empty() && !LSCHED_HAVE_BENCH) continue;
    words with_help = arguments;
    with_help.emplace_back("--help");
    const outcome bare = run(lsched(arguments));
    EXPECT_EQ(bare.status, 0) << bare.err;
    EXPECT_EQ(bare.err, "");
    EXPECT_EQ(bare.out, run(lsched(with_help)).out);
  }
}

TEST(Command, sizes_have_one_syntax) {
  const auto printed = [](words command) {  // the first line, which has no wall clock times
    const outcome it = run(lsched(std::move(command)));
    EXPECT_EQ(it.status, 0) << it.err;
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
      {{"show", "barrier", "--ranks", "3", "--rank", "3"}, "--rank: there is no such rank"},
      {{"show", "alreduce"}, "COLLECTIVE: \"alreduce\" is not shown by `lsched list`; did you mean allreduce?"},
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
      {{"show", "bcast", "--root", "4"}, "--root: there is no rank 4: there are 4 ranks"},
      {{"list", "--root", "9"}, "--root: there is no rank 9"},
      {{"verify", k_scan, "--promise", "bcast", "--root", "3"}, "--root: there is no rank 3"},
      {{"show", "partial_allreduce", "--activation", "quorum(5)"}, "quorum(5) needs a number from 1 to 4"},
      {{"list", "--activation", "quorum(9)"}, "quorum(9) needs a number from 1 to 8"},
      {{"verify", "partial_allreduce", "--ranks", "2-4", "--activation", "quorum(5)"}, "quorum(5) needs"},
      {{"simulate", "partial_allreduce", "--ranks", "8", "4", "--activation", "quorum(5)"}, "quorum(5) needs"},
      {{"soak", "--activation", "quorum(5)"}, "quorum(5) needs a number from 1 to 4"},
      {{"simulate", "alreduce"}, "did you mean allreduce?"},
      {{"simulate", "--algorithm", "magic"}, "\"magic\" is not shown by `lsched list`"},
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
      {{"simulate", "--initiator", "3", k_scan}, "no such rank"},
      {{"simulate", "--initiator", "1", k_scan}, "not majority"},
      {{"simulate", "partial_allreduce", "--activation", "majority", "--ranks", "4", "--initiator", "4"},
       "no such rank"},
      {{"simulate", "--initiator", "3"}, "--activation majority"},
      {{"simulate", "partial_allreduce", "--initiator", "3"}, "--activation majority"},
      {{"simulate", "--activation", "full"}, "a partial collective"},
      {{"simulate", "--skew-us", "5"}, "--skew"},
      {{"simulate", "--fig9", "--skew", "linear"}, "cannot be combined with --skew"},
      {{"simulate", "--fig9", "--seed", "2"}, "cannot be combined with --seed"},
      {{"simulate", "barrier", "--fig9"}, "cannot be combined with COLLECTIVE"},
      {{"simulate", "--fig9", "--bytes", "8", "64"}, "one size"},
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
      {{"verify", "allreduce", "--algorithm", "magic"}, "\"magic\" is not shown by `lsched list` for allreduce"},
      {{"verify", "allreduce", "--algorithm", "auto"}, "--algorithm: auto cannot be verified"},
      {{"verify", "alreduce"}, "COLLECTIVE: \"alreduce\" is not shown by `lsched list`"},
      {{"verify", "--all", "--algorithm", "magic"}, "--algorithm: \"magic\" is not shown by `lsched list`"},
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

/// A file in the temporary folder. The destructor removes the file.
struct temporary_file {
  explicit temporary_file(const std::string& content)
      : path(testing::TempDir() + "lsched-world-" + std::to_string(getpid()) + "-" + std::to_string(++made()) +
             ".sched") {
    std::FILE* file = std::fopen(path.c_str(), "w");
    std::fwrite(content.data(), 1, content.size(), file);
    std::fclose(file);
  }
  ~temporary_file() { unlink(path.c_str()); }
  static int& made() {
    static int number = 0;
    return number;
  }
  std::string path;
};

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
      {{"bench", "coll", "allreduce"}, "\"allreduce\" is not a path; --collective takes names"},
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

// --- bench -------------------------------------------------------------------------------------------------

std::vector<json> lines_of(const std::string& text) {
  std::vector<json> lines;
  std::istringstream all(text);
  for (std::string line; std::getline(all, line);) lines.push_back(json::parse(line));
  return lines;
}

const words k_short_sweep{"--collective", "allreduce,barrier", "--bytes", "4,1K",   "--iterations",
                          "10",           "--cell-seconds",    "0.01",    "--json", "-"};

TEST(CommandBench, a_sweep_has_a_right_line_for_every_cell) {
  words ask{"bench", "coll", "-n", "3", "--algorithm", "all"};
  ask.insert(ask.end(), k_short_sweep.begin(), k_short_sweep.end());
  const outcome it = run(lsched(ask));
  ASSERT_EQ(it.status, 0) << it.err;
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
    EXPECT_GE(cells[cell], 2) << cell;  // at least one row for each form
  EXPECT_EQ(cells.count("barrier malloc 0 in place"), 0u);
}

TEST(CommandBench, every_collective_that_has_an_algorithm_is_right) {
  const outcome listed = run(lsched({"list", "--json", "-"}));
  ASSERT_EQ(listed.status, 0) << listed.err;
  std::set<std::string> collectives;
  for (const json& entry : json::parse(listed.out)) collectives.insert(entry["collective"]);
  std::erase_if(collectives, [](const std::string& name) {  // adasum and sparse_allreduce have their own benchmarks
    return name.starts_with("partial_") || name.starts_with("node_") || name == "neighbor_exchange" ||
           name == "adasum" || name == "sparse_allreduce";
  });
  std::string asked;
  for (const std::string& name : collectives) asked += (asked.empty() ? "" : ",") + name;
  const outcome it = run(lsched({"bench", "coll", "-n", "3", "--collective", asked, "--algorithm", "all", "--bytes",
                                 "4,1K", "--iterations", "5", "--cell-seconds", "0.01", "--json", "-"}));
  ASSERT_EQ(it.status, 0) << it.err;
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
  const outcome first = run(lsched(tune));
  ASSERT_EQ(first.status, 0) << first.err;
  for (const char* size : {"\n   8  ", "\n 64K  "}) {  // one row per collective, for the fastest algorithm
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
    const outcome it = run(lsched({"list", "--explain", "--json", "-", "--ranks", "3", "--count", "2", "--tuning",
                                   table.path, "--ranks-per-core", per_core}));
    ASSERT_EQ(it.status, 0) << it.err;
    const bool is_mine = contains(text, std::string(" ranks 3 near ") + (per_core[0] == '1' ? "roomy" : "crowded"));
    for (const json& entry : json::parse(it.out)) {
      if (entry["collective"] != "bcast") continue;
      EXPECT_EQ(contains(entry["reason"].get<std::string>(), "of the tuning table"), is_mine) << entry;
    }
  }
}

TEST(CommandList, explains_the_choice_for_nodes) {
  words ask{"list", "allreduce", "--explain", "--ranks", "64", "--ranks-per-core", "1", "--count", "65536"};
  const std::string one = run(lsched(ask)).out;
  ask.insert(ask.end(), {"--ranks-per-node", "16"});
  const std::string four = run(lsched(ask)).out;
  EXPECT_TRUE(contains(one, "\nFor 64 ranks on 1 node, 1 per core")) << one;
  EXPECT_TRUE(contains(four, "\nFor 64 ranks on 4 nodes, 1 per core")) << four;
  const auto ring = [](const std::string& told) { return told.substr(told.find("\n    ring "), 60); };
  EXPECT_NE(ring(one), ring(four));  // messages between nodes cost more
}

/// In the algorithm `halving`, a tensor inside the block of one rank needs no exchange of sums. So the prediction
/// depends on the tensors.
TEST(CommandList, explains_the_choice_for_as_many_tensors_as_asked_for) {
  const auto predicted = [](words tensors) {
    words ask{"list", "--explain", "--json", "-", "--ranks", "8", "--count", "64"};
    ask.insert(ask.end(), tensors.begin(), tensors.end());
    const outcome it = run(lsched(ask));
    EXPECT_EQ(it.status, 0) << it.err;
    for (const json& entry : json::parse(it.out))
      for (const json& one : entry["candidates"])
        if (entry["collective"] == "adasum" && one["algorithm"] == "halving") return one["predicted_us"].get<double>();
    return 0.0;
  };
  EXPECT_EQ(predicted({}), predicted({"--tensors", "1"}));
  EXPECT_LT(predicted({"--tensors", "8"}), predicted({}));
}

TEST(CommandShow, cuts_the_vector_of_an_adaptive_sum_into_tensors) {
  const auto sums_of = [](const char* tensors) {
    const outcome it = run(lsched({"show", "adasum", "--ranks", "2", "--rank", "1", "--count", "10", "--tensors",
                                   tensors, "--algorithm", "recursive_doubling"}));
    EXPECT_EQ(it.status, 0) << it.err;
    int sums = 0;
    for (auto at = it.out.find("dot_norms"); at != std::string::npos; at = it.out.find("dot_norms", at + 1)) ++sums;
    return sums;
  };
  EXPECT_EQ(sums_of("1"), 1);
  EXPECT_EQ(sums_of("3"), 3);
  EXPECT_EQ(sums_of("12"), 10) << "two regions are empty";
}

TEST(CommandBench, tuning_into_what_is_no_table_is_refused_before_anything_is_measured) {
  const temporary_file other("something else\n");
  const outcome it = run(lsched({"bench", "tune", "--tuning", other.path}));
  EXPECT_NE(it.status, 0);
  EXPECT_TRUE(contains(it.err, "a tuning table must begin with")) << it.err;
  EXPECT_EQ(content_of(other.path), "something else\n");
}

TEST(CommandBench, overlap_measures_each_way_in_each_phase) {
  const outcome it = run(lsched({"bench", "overlap", "-n", "2", "--bytes", "1K", "--progress-by", "caller",
                                 "--cell-seconds", "0.01", "--json", "-"}));
  ASSERT_EQ(it.status, 0) << it.err;
  const auto lines = lines_of(it.out);
  ASSERT_EQ(lines.size(), 4u) << it.out;  // two lines with malloc, two lines with lsched_alloc
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
  const std::string path = testing::TempDir() + "lsched-overlap-" + std::to_string(getpid()) + ".json";
  const outcome measured =
      run(lsched({"bench", "overlap", "-n", "2", "--bytes", "1K", "--progress-by", "caller", "--compute-by", "sleep",
                  "--label", "cable", "--cell-seconds", "0.01", "--json", path}));
  ASSERT_EQ(measured.status, 0) << measured.err;
  const outcome it = run(lsched({"bench", "compare", path, path}));
  unlink(path.c_str());
  ASSERT_EQ(it.status, 0) << it.err;
  // a heading, malloc and lsched_alloc of both files
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
      run(lsched({"bench", "adasum", "-n", "3", "--bytes", "4,1K,100K", "--tensors", "1,5", "--algorithm",
                  "auto,recursive_doubling,halving,linear", "--cell-seconds", "0.002", "--json", "-"}));
  ASSERT_EQ(it.status, 0) << it.err;
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
  EXPECT_EQ(rows["sum"], 3 * 2 * 2);             // sizes, in place or not, kinds of memory
  EXPECT_EQ(rows["adasum"], 3 * 2 * 2 * 2 * 4);  // also tensors and algorithms
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
      EXPECT_EQ(rows, 2u * 2 * 2 * 2 * 4);  // sizes, tensors, in place, memory, algorithms
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
    const outcome it = run(all);
    ASSERT_EQ(it.status, 0) << it.err;
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
      const bool is_dense = line["algorithm"] == "dense" || line["algorithm"] == "denseovlp";  // short: few steps
      EXPECT_TRUE(is_dense || line["over_bound"] == 0) << line;
      EXPECT_EQ(line["buckets"], line["algorithm"] == "denseovlp" ? 8 : 1);
      ++rows[line["algorithm"]];
    }
    EXPECT_EQ(rows["oktopk"], 2);
    EXPECT_EQ(rows.size(), 6u) << it.out;
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
    const outcome it = run(all);
    EXPECT_EQ(it.status, 0) << it.err;
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
  auto counted = rows_of({}, {"--ranks", "4", "--count", "3200", "--buckets", "10"});  // all blocks are equal
  EXPECT_EQ(counted["denseovlp"]["words_recv_max"], counted["dense"]["words_recv_max"]);
  EXPECT_EQ(counted["denseovlp"]["words_recv_max"], 2 * 3200 * 3 / 4);
  EXPECT_EQ(counted["denseovlp"]["words_meta_max"], 10 * counted["dense"]["words_meta_max"].get<double>());
  EXPECT_EQ(counted["denseovlp"]["bound_words"], counted["dense"]["bound_words"]);
}

/// In rounds 1, 5 and so on all sums are gathered, so that the traffic exceeds the bound. The command must report this.
TEST(CommandBench, published_thresholds_are_shown_when_asked_for) {
  for (const words& launcher : {words{}, words{"run", "-n", "3"}}) {
    words all = launcher.empty() ? words{} : lsched({"run", "-n", "3"});
    const words command = lsched({"bench", "sparse", "--count", "2000", "--density", "0.02", "--algorithm", "oktopk",
                                  "--boundaries", "all", "--reuse", "4", "--lists-at-once", "1", "--json", "-"});
    all.insert(all.end(), command.begin(), command.end());
    if (launcher.empty()) all.insert(all.end(), {"--ranks", "3"});
    const outcome it = run(all);
    ASSERT_EQ(it.status, 0) << it.err;
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
  const outcome it = run(
      lsched({"bench",        "partial", "-n",      "3", "--skew",       "rotating", "--skew-us",          "1000",
              "--iterations", "6",       "--bytes", "8", "--activation", "solo",     "quorum(2)+every(4)", "quorum(3)",
              "full",         "--stats", "--json",  "-"}));
  ASSERT_EQ(it.status, 0) << it.err;
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
      run(lsched({"bench", "partial", "-n", "3", "--skew", "k_of_p", "--skew-us", "500", "--iterations", "30",
                  "--bytes", "64", "--activation", "solo", "majority+every(5)", "--barrier-free", "--json", "-"}));
  ASSERT_EQ(it.status, 0) << it.err;
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
    const outcome it = run(lsched({"bench", "engine", "--only", part, "--json", "-"}));
    ASSERT_EQ(it.status, 0) << it.err;
    for (const json& line : lines_of(it.out)) {
      EXPECT_GT(line.value(line["bench"] == "commit" ? "us_median" : "ns_per_op", 0.0), 0) << line;
      ++lines[line["what"].get<std::string>() + (line.contains("impl") ? " " + line["impl"].get<std::string>() : "")];
    }
  }
  for (const char* each : {"chain libsched", "fan libsched", "recursive_doubling", "rebind"})
    EXPECT_EQ(lines[each], 1) << each;
  EXPECT_EQ(lines["allreduce libsched"], 2);  // two algorithms
}

TEST(CommandBench, cost_has_a_right_line_for_every_way_to_spend_a_round) {
  const outcome it = run(lsched(
      {"bench", "cost", "-n", "2", "--bytes", "8,16K", "--cell-seconds", "0.002", "--seconds", "0.02", "--json", "-"}));
  ASSERT_EQ(it.status, 0) << it.err;
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
  for (const auto& [path, part] : std::map<std::string, std::string>{
           {"/no/such/file", "/no/such/file: no such file or directory"}, {"/dev/null", "/dev/null: has no row of"}}) {
    const outcome it = run(lsched({"bench", "compare", path}));
    EXPECT_EQ(it.status, 1);
    EXPECT_TRUE(contains(it.err, part)) << it.err;
    EXPECT_EQ(std::count(it.err.begin(), it.err.end(), '\n'), 1) << it.err;
  }
}

#if LSCHED_HAVE_MPI
TEST(CommandBench, a_sweep_under_an_mpi_launcher_can_be_compared) {
  const std::string path = testing::TempDir() + "lsched-coll-" + std::to_string(getpid()) + ".json";
  words ask{LSCHED_TEST_MPIEXEC, "-n", "2", LSCHED_TEST_COMMAND, "bench", "coll"};
  ask.insert(ask.end(), k_short_sweep.begin(), k_short_sweep.end());
  ask.back() = path;
  const outcome swept = run(ask);
  ASSERT_EQ(swept.status, 0) << swept.err;
  const outcome it = run(lsched({"bench", "compare", path}));
  unlink(path.c_str());
  ASSERT_EQ(it.status, 0) << it.err;
  for (const char* part : {"allreduce", "barrier", "1 of 1", "MPI"}) EXPECT_TRUE(contains(it.out, part)) << it.out;
}

TEST(CommandBench, all_ways_to_progress_are_measured_in_one_launch_of_mpi) {
  const outcome it = run({LSCHED_TEST_MPIEXEC, "-n", "2", LSCHED_TEST_COMMAND, "bench", "overlap", "--bytes", "1K",
                          "--compute-by", "core", "--cell-seconds", "0.01", "--json", "-"});
  ASSERT_EQ(it.status, 0) << it.err;
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
    const outcome it = run(
        {"/bin/sh", "-c",
         std::string(LSCHED_TEST_MPIEXEC " -n 3 " LSCHED_TEST_COMMAND " bench ") + asked + " --cell-seconds 0.001"});
    EXPECT_EQ(it.status, 0) << it.err;
    std::istringstream lines(it.out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
  }
}
#endif
#endif

TEST(Command, failures_of_the_library_are_one_line_and_1) {
  const std::vector<std::pair<words, std::string>> requests{
      {{"show", "allreduce", "--op", "band", "--dtype", "f32"}, "lsched: LSCHED_ERR_ARGUMENT: "},
      {{"show", "/etc/passwd"}, "lsched: LSCHED_ERR_ARGUMENT: /etc/passwd: not an algorithm file"},
  };
  for (const auto& [arguments, start] : requests) {
    const outcome it = run(lsched(arguments));
    EXPECT_EQ(it.status, 1) << it.err;
    EXPECT_EQ(it.err.rfind(start, 0), 0u) << it.err;
    EXPECT_EQ(std::count(it.err.begin(), it.err.end(), '\n'), 1) << it.err;
  }
}

// --- info, list, show --------------------------------------------------------------------------------------

// The command links MPI's libraries, which would handle SIGHUP by printing a message. Nevertheless SIGHUP must end the
// command.
TEST(Command, a_hangup_ends_it) {
  const std::string path = testing::TempDir() + "lsched-hangup-" + std::to_string(getpid());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  signal(SIGHUP, SIG_DFL);  // nohup starts programs with SIGHUP ignored
  program it(lsched({"verify", path}));
  int end = -1;  // open() succeeds when the command reads
  for (const auto deadline = clock::now() + k_limit; end < 0 && clock::now() < deadline; usleep(1000))
    end = open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  it.send(SIGHUP);
  EXPECT_EQ(it.finish(), 128 + SIGHUP) << it.err();
  close(end);
  unlink(path.c_str());
}

TEST(Command, output_that_finds_no_room_is_a_failure) {
  for (const std::string asked :
       {"--help", "list", "show barrier --ranks 3", "verify barrier --ranks 3 --json -", "simulate"}) {
    const auto told = lsched::testing::run_shell(LSCHED_TEST_COMMAND " " + asked + " 2>&1 > /dev/full");
    EXPECT_EQ(told.status, 1) << asked;
    EXPECT_TRUE(contains(told.output, "standard output: No space left")) << asked << ": " << told.output;
  }
}

TEST(CommandInfo, json_tells_version_machine_and_environment) {
  const outcome it = run(lsched({"info", "--json", "-", "--ranks", "1000000"}), {{"LSCHED_IDLE", "yield"}});
  ASSERT_EQ(it.status, 0) << it.err;
  const json info = json::parse(it.out);
  EXPECT_EQ(info["version"], lsched_version());
  EXPECT_EQ(info["abi"], LSCHED_ABI);
  EXPECT_GE(info["cores"]["usable"], 1);
  EXPECT_LE(info["cores"]["usable"], info["cores"]["affinity"]);
  EXPECT_FALSE(info["build"]["simd"].get<std::string>().empty());
  EXPECT_EQ(info["idle"]["yield_ns"], "forever");
  EXPECT_EQ(info["idle"]["ranks"], 1000000);
  const auto& variables = info["environment"];
  const auto idle =
      std::find_if(variables.begin(), variables.end(), [](const json& v) { return v["name"] == "LSCHED_IDLE"; });
  ASSERT_NE(idle, variables.end());
  EXPECT_EQ((*idle)["value"], "yield");
  EXPECT_EQ((*idle)["source"], "environment");
}

TEST(CommandInfo, says_where_arithmetic_would_run) {
  const auto lane = [](const char* wish, const char* ranks) {
    const outcome it = run(lsched({"info", "--json", "-", "--ranks", ranks}), {{"LSCHED_LANE", wish}});
    EXPECT_EQ(it.err, "");
    return json::parse(it.out)["lane"];
  };
  EXPECT_EQ(lane("inline", "1")["kind"], "inline");
  EXPECT_EQ(lane("inline", "1")["why"], "as requested");
  EXPECT_EQ(lane("auto", "1000000")["workers"], 0) << "no core is free for any of a million ranks";
#if LSCHED_HAVE_TBB
  EXPECT_EQ(lane("auto", "1000000")["why"], "no core is free");
  EXPECT_EQ(lane("tbb:3", "1000000")["workers"], 3);
  EXPECT_EQ(lane("tbb", "1000000")["workers"], 1);
#endif
  EXPECT_TRUE(contains(run(lsched({"info"}), {{"LSCHED_LANE", "tbb:0"}}).err, "LSCHED_LANE=tbb:0 is not valid"));
}

TEST(CommandInfo, warns_of_misspelt_variables_and_values) {
  const outcome it =
      run(lsched({"info"}), {{"LSCHED_PROGESS", "thread"}, {"LSCHED_IDLE", "snooze"}, {"LSCHED_Q", "1"}});
  EXPECT_EQ(it.status, 0);
  EXPECT_TRUE(contains(it.err, "did you mean LSCHED_PROGRESS?")) << it.err;
  EXPECT_TRUE(contains(it.err, "LSCHED_IDLE=snooze is not valid")) << it.err;
  EXPECT_TRUE(contains(it.err, "LSCHED_Q is not a variable of libsched\n")) << it.err;
}

TEST(CommandInfo, knows_the_variables_of_devices) {
  EXPECT_EQ(run(lsched({"info"}), {{"LSCHED_CUDA_DEVICE", "1"}, {"LSCHED_CUDA_STREAMS", "host"}}).err, "");
  const std::string warned = run(lsched({"info"}), {{"LSCHED_CUDA_STREAMS", "hots"}, {"LSCHED_CUDA_DEVICE", "x"}}).err;
  EXPECT_TRUE(contains(warned, "LSCHED_CUDA_STREAMS=hots is not valid: expected auto|host")) << warned;
  EXPECT_TRUE(contains(warned, "LSCHED_CUDA_DEVICE is \"x\"")) << warned;
}

TEST(CommandInfo, warns_of_values_that_a_runtime_would_refuse) {
  const temporary_file table("libsched tuning 1\nallreduce ranks 9 near roomy bytes 0 max telepathy\n");
  const outcome it = run(lsched({"info"}), {{"LSCHED_TUNING", table.path}, {"LSCHED_RANKS_PER_NODE", "0"}});
  EXPECT_EQ(it.status, 0);
  EXPECT_TRUE(contains(it.err, "line 2: there is no allreduce algorithm telepathy")) << it.err;
  EXPECT_TRUE(contains(it.err, "LSCHED_RANKS_PER_NODE is \"0\"")) << it.err;
  const std::string named = run(lsched({"info"}), {{"LSCHED_ALGORITHM", "allreduce=telepathy"}}).err;
  EXPECT_TRUE(contains(named, "LSCHED_ALGORITHM=allreduce=telepathy: \"allreduce\" has no algorithm")) << named;
  for (const std::string path : {"/nonexistent", LSCHED_TEST_SOURCE_DIR, "/dev/zero"}) {
    const std::string unreadable = run(lsched({"info"}), {{"LSCHED_TUNING", path}}).err;
    EXPECT_TRUE(contains(unreadable, "LSCHED_TUNING=" + path + ": cannot be read")) << unreadable;
  }
  const temporary_file empty("");
  EXPECT_TRUE(contains(run(lsched({"info"}), {{"LSCHED_TUNING", empty.path}}).err, "the tuning table is empty"));
  EXPECT_TRUE(contains(run(lsched({"info"}), {{"LSCHED_TRACE", "/nonexistent/x"}}).err,
                       "LSCHED_TRACE=/nonexistent/x cannot be written: /nonexistent/: "));
  EXPECT_TRUE(contains(run(lsched({"info"}), {{"LSCHED_RUN_RANK", "0"}}).err, "LSCHED_RUN_FD is not set"));
  EXPECT_TRUE(contains(run(lsched({"info"}), {{"LSCHED_RUN_FD", "x"}}).err, "LSCHED_RUN_FD is \"x\""));
}

TEST(CommandInfo, is_silent_about_a_clean_environment) {
  const outcome it = run(lsched({"info"}));
  EXPECT_EQ(it.status, 0);
  EXPECT_EQ(it.err, "");
  EXPECT_TRUE(contains(it.out, "usable")) << it.out;
  const std::map<std::string, std::string> as_good_as_clean{{"LSCHED_PROGRESS", ""},   {"LSCHED_LANE", ""},
                                                            {"LSCHED_READ_PEERS", ""}, {"LSCHED_TUNING", ""},
                                                            {"LSCHED_TRACE", ""},      {"LSCHED_TEST_MODEL_SEED", "3"}};
  EXPECT_EQ(run(lsched({"info"}), as_good_as_clean).err, "");
}

TEST(CommandList, declared_costs_are_those_of_the_schedules_shown) {
  for (const std::string ranks : {"1", "3", "6", "8"}) {
    const outcome listed = run(lsched({"list", "--json", "-", "--ranks", ranks, "--count", "10", "--dtype", "f64"}));
    ASSERT_EQ(listed.status, 0) << listed.err;
    for (const json& entry : json::parse(listed.out)) {
      const auto collective = entry["collective"].get<std::string>();
      if (collective == "sparse_allreduce") continue;  // the list has only estimates
      const outcome shown = run(lsched({"show", collective, "--algorithm", entry["algorithm"], "--ranks", ranks,
                                        "--all", "--count", "10", "--dtype", "f64", "--json", "-"}));
      ASSERT_EQ(shown.status, 0) << shown.err;
      std::uint64_t messages = 0;
      std::uint64_t bytes = 0;
      for (const json& program : json::parse(shown.out))
        for (const json& op : program["ops"]) {
          if (op["kind"] != "send") continue;
          ++messages;
          bytes += op["count"].get<std::uint64_t>() * 8;
        }
      EXPECT_EQ(entry["cost"]["messages"], messages) << collective << " on " << ranks;
      EXPECT_EQ(entry["cost"]["bytes"], bytes) << collective << " on " << ranks;
    }
  }
}

TEST(CommandList, shows_the_collective_that_is_named) {
  for (const words& more : {words{}, words{"--explain"}}) {
    words ask{"list", "allreduce", "--json", "-"};
    ask.insert(ask.end(), more.begin(), more.end());
    const outcome it = run(lsched(ask));
    ASSERT_EQ(it.status, 0) << it.err;
    const json entries = json::parse(it.out);
    EXPECT_EQ(entries.size(), more.empty() ? 9u : 1u) << it.out;
    for (const json& entry : entries) EXPECT_EQ(entry["collective"], "allreduce");
  }
  const outcome text = run(lsched({"list", "allreduce"}));
  EXPECT_TRUE(contains(text.out, "allreduce                    ring ")) << text.out;
  EXPECT_FALSE(contains(text.out, "sparse_allreduce")) << text.out;
  const outcome sparse = run(lsched({"list", "sparse_allreduce"}));
  EXPECT_TRUE(contains(sparse.out, "\nsparse_allreduce ")) << sparse.err;
  EXPECT_FALSE(contains(sparse.out, "\nallreduce ")) << sparse.out;
  EXPECT_TRUE(contains(run(lsched({"list", "alreduce"})).err, "did you mean allreduce?"));
  EXPECT_EQ(run(lsched({"list", "sparse_allreduce", "--explain"})).status, 2);
}

TEST(CommandList, says_why_an_algorithm_cannot) {
  const outcome it = run(lsched({"list", "--json", "-", "--dtype", "f32", "--op", "bxor"}));
  ASSERT_EQ(it.status, 0) << it.err;
  for (const json& entry : json::parse(it.out)) {
    if (entry["collective"] == "sparse_allreduce") continue;
    const lsched::collective& of = *lsched::find_collective(entry["collective"].get<std::string>());
    const bool reduces = of.reduces && !of.adapts;  // a partial adaptive sum ignores --op
    EXPECT_EQ(entry["objection"].is_null(), !reduces);
    EXPECT_EQ(entry["cost"].is_null(), reduces);
  }
  const outcome text = run(lsched({"list", "--ranks", "5"}));
  EXPECT_TRUE(contains(text.out, "partial_allreduce")) << text.out;
}

TEST(CommandList, sparse_allreduces_have_estimates) {
  const auto entries = [](words more) {
    words ask{"list", "--json", "-", "--ranks", "8", "--count", "10000"};
    ask.insert(ask.end(), more.begin(), more.end());
    std::vector<json> found;
    for (const json& entry : json::parse(run(lsched(ask)).out))
      if (entry["collective"] == "sparse_allreduce") found.push_back(entry);
    return found;
  };
  for (const json& entry : entries({"--k", "40"})) {
    EXPECT_EQ(entry["k"], 40);
    EXPECT_EQ(entry["objection"], nullptr);
    EXPECT_GT(entry["estimate"]["messages"], 0) << entry;
    if (entry["algorithm"] == "topka") {
      EXPECT_EQ(entry["estimate"]["words"], 2 * 40 * 7 + 2 * 7);
    }
  }
  EXPECT_EQ(entries({}).size(), lsched::sparse_algorithms().size());  // the list includes baselines
  EXPECT_EQ(entries({})[0]["k"], 100);
  for (const json& entry : entries({"--dtype", "i32"})) EXPECT_NE(entry["objection"], nullptr);
  const outcome text = run(lsched({"list", "--k", "512"}));
  EXPECT_TRUE(contains(text.out, "k = 512:")) << text.out;
  EXPECT_TRUE(contains(text.out, "in equal shares: about 4 k words")) << text.out;
}

TEST(CommandShow, prints_sparse_allreduces) {
  const outcome text = run(lsched(
      {"show", "sparse_allreduce", "--algorithm", "topka", "--ranks", "3", "--all", "--count", "50", "--k", "7"}));
  ASSERT_EQ(text.status, 0) << text.err;
  EXPECT_TRUE(contains(text.out, "\nname \"sparse_allreduce/topka\"\n")) << text.out;
  EXPECT_TRUE(contains(text.out, " lists 7 ")) << text.out;
  EXPECT_TRUE(contains(text.out, "\nrank 2 of 3\n")) << text.out;
  EXPECT_EQ(run(lsched({"show", "sparse_allreduce", "--ranks", "3"})).status, 0);
  const outcome none = run(lsched({"show", "sparse_allreduce", "--algorithm", "ring"}));
  EXPECT_EQ(none.status, 2);
  EXPECT_TRUE(
      contains(none.err, "\"ring\" is not shown by `lsched list` for sparse_allreduce; available: auto, oktopk"))
      << none.err;
}

TEST(CommandShow, prints_text_dot_and_json_of_the_rank_asked_for) {
  const outcome text = run(lsched({"show", "allreduce", "--ranks", "6", "--rank", "5"}));
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_EQ(text.out.rfind("libsched schedule 3\n", 0), 0u);
  EXPECT_TRUE(contains(text.out, "\nrank 5 of 6\n")) << text.out;

  const outcome dot = run(lsched({"show", "barrier", "--ranks", "3", "--all", "--dot", "-"}));
  std::size_t graphs = 0;
  for (auto at = dot.out.find("digraph"); at != std::string::npos; at = dot.out.find("digraph", at + 1)) ++graphs;
  EXPECT_EQ(graphs, 3u) << dot.out;

  const outcome parsed = run(lsched({"show", "partial_allreduce", "--ranks", "3", "--rank", "2", "--activation",
                                     "majority", "--seed", "9", "--json", "-"}));
  ASSERT_EQ(parsed.status, 0) << parsed.err;
  const json program = json::parse(parsed.out);
  EXPECT_EQ(program["rank"], 2);
  EXPECT_EQ(program["activation"], "majority");
  EXPECT_EQ(program["seed"], 9);
  EXPECT_LT(program["exit"], program["ops"].size());
}

TEST(CommandShow, writes_a_world_as_goal) {
  const outcome text = run(lsched({"show", "partial_allreduce", "--ranks", "3", "--goal", "-", "--initiator", "2"}));
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_EQ(text.out.rfind("num_ranks 3\n\nrank 0 {\n// libsched: partial_allreduce", 0), 0u) << text.out;
  EXPECT_TRUE(contains(text.out, "rank 2 alone calls")) << text.out;
}

// --- verify ------------------------------------------------------------------------------------------------

TEST(CommandShow, an_algorithm_file_may_be_written_over_itself) {
  const std::string text = content_of(k_ring);
  const temporary_file own(text);
  EXPECT_EQ(run(lsched({"show", own.path, "--algorithm-file", own.path})).status, 0);
  EXPECT_EQ(content_of(own.path), text);
  const temporary_file other("root:x:0:0\n");
  for (const std::string& path : {other.path, std::string(k_scan)}) {
    const outcome it = run(lsched({"show", path, "--algorithm-file", "-"}));
    EXPECT_EQ(it.status, 1);
    EXPECT_EQ(it.err, "lsched: LSCHED_ERR_ARGUMENT: " + path + ": not an algorithm file or an MSCCL program\n");
  }
}

TEST(CommandShow, counts_the_steps_of_a_picture) {
  const std::string one = run(lsched({"show", "allreduce", "--ranks", "1", "--svg", "-"})).out;
  EXPECT_TRUE(contains(one, ": 1 step</text>")) << one;
  EXPECT_TRUE(contains(run(lsched({"show", k_scan, "--svg", "-"})).out, ": 8 steps</text>"));
}

TEST(CommandSimulate, names_of_files_may_hold_any_bytes) {
  const std::string folder = testing::TempDir() + "lsched-names-" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  for (const std::string name : {"\xff\xc3.sched", "\x01.sched", "\xc3\xbc.sched"}) {
    const std::string path = folder + "/" + name;
    std::filesystem::copy_file(k_scan, path);
    const outcome as_json = run(lsched({"simulate", path, "--json", "-"}));
    EXPECT_EQ(as_json.status, 0) << as_json.err;
    EXPECT_TRUE(json::accept(as_json.out.substr(0, as_json.out.find('\n')))) << as_json.out;
    const std::string title = run(lsched({"simulate", path, "--svg", "-"})).out;
    EXPECT_FALSE(contains(title, "\xff") || contains(title, "\x01")) << title;
    EXPECT_EQ(contains(title, "\xc3\xbc.sched"), name == "\xc3\xbc.sched") << title;
  }
  std::filesystem::remove_all(folder);
}

TEST(CommandVerify, says_what_it_has_proved) {
  const outcome it = run(lsched({"verify", "allreduce", "--algorithm", "tree", "--ranks", "2-3", "--count", "1"}));
  EXPECT_EQ(it.status, 0) << it.err;
  EXPECT_TRUE(contains(it.out, "proved  allreduce/tree, 3 ranks, count 1, in place: 4 messages")) << it.out;
  EXPECT_TRUE(contains(it.out, "proved  allreduce/tree, 3 ranks, count 1, means: 4 messages")) << it.out;
  EXPECT_TRUE(contains(it.out, "\n8 worlds proved, 0 failed\n")) << it.out;
}

TEST(CommandVerify, json_ends_with_the_totals) {
  const outcome it = run(lsched(
      {"verify", "partial_allreduce", "--algorithm", "tree", "--ranks", "1,5", "--count", "0,7", "--json", "-"}));
  EXPECT_EQ(it.status, 0) << it.err;
  std::vector<json> lines;
  std::istringstream text(it.out);
  for (std::string line; std::getline(text, line);) lines.push_back(json::parse(line));
  ASSERT_EQ(lines.size(), 6u * 2 * 3 + 1);  // activations; sizes; counts 0, 7, and 7 in buckets; the totals
  for (std::size_t i = 0; i + 1 < lines.size(); ++i) EXPECT_EQ(lines[i]["holds"], true) << lines[i];
  EXPECT_EQ(lines.back(), json::parse(R"({"verified":36,"failed":0})"));
}

TEST(CommandVerify, proves_sparse_allreduces) {
  const outcome it = run(lsched({"verify", "sparse_allreduce", "--ranks", "2-3", "--count", "100", "--k", "7"}));
  EXPECT_EQ(it.status, 0) << it.err;
  EXPECT_TRUE(contains(it.out, "proved  sparse_allreduce/oktopk, 3 ranks, count 100, k 7, defer: ")) << it.out;
  EXPECT_TRUE(contains(it.out, "proved  sparse_allreduce/gtopk, 2 ranks, count 100, k 7: ")) << it.out;
  EXPECT_TRUE(contains(it.out, "proved  sparse_allreduce/oktopk, 3 ranks, count 100, k 7, reused: ")) << it.out;
  EXPECT_TRUE(contains(it.out, "\n14 worlds proved, 0 failed\n")) << it.out;
  const outcome one = run(lsched({"verify", "sparse_allreduce", "--algorithm", "topka", "--ranks", "5", "--count", "9",
                                  "--k", "0,3", "--json", "-"}));
  EXPECT_TRUE(contains(one.out, R"("count":9,"k":3,"defers":false,"reuses":false,"holds":true)")) << one.out;
  EXPECT_TRUE(contains(one.out, R"({"verified":2,"failed":0})")) << one.out;
}

TEST(CommandVerify, proves_partial_sparse_allreduces) {
  const std::string name = "partial_sparse_allreduce";
  const outcome it = run(lsched({"verify", name, "--ranks", "2-3", "--count", "100", "--k", "7"}));
  EXPECT_EQ(it.status, 0) << it.err;
  EXPECT_TRUE(contains(it.out, "proved  partial_sparse_allreduce/oktopk solo, 3 ranks, count 100, k 7, defer: "))
      << it.out;
  EXPECT_TRUE(contains(it.out, "proved  partial_sparse_allreduce/gtopk quorum(1), 2 ranks, count 100, k 7: "))
      << it.out;
  EXPECT_TRUE(contains(it.out, "\n84 worlds proved, 0 failed\n")) << it.out;
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
    EXPECT_TRUE(contains(it.out, "promised as allreduce/recursive_doubling of sum of 1024 x f32: ")) << it.out;
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
      slip.erase(word, std::strlen(" in_place"));  // the flag follows from the buffers
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
    EXPECT_TRUE(contains(it.err, strange.path + ": not an algorithm file, a schedule file, an MSCCL")) << it.err;
    EXPECT_EQ(std::count(it.err.begin(), it.err.end(), '\n'), 1) << it.err;
  }
}

TEST(CommandVerify, a_name_that_no_terminal_should_see_is_escaped) {
  const temporary_file named(
      "libsched schedule 2\nname \"\\x1b[31mred\\xff\"\nrank 0 of 1\nflags\nactivation none seed 0\n"
      "op 0 nop\nexit 0\n");
  EXPECT_TRUE(contains(run(lsched({"verify", named.path})).out, "proved  \\x1b[31mred\\xff, 1 rank, no promise"));
  const outcome it = run(lsched({"verify", named.path, "--json", "-"}));
  EXPECT_EQ(it.status, 0) << it.err;
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
    EXPECT_TRUE(contains(out, "no promise for its outputs (if it is meant to be partial_allreduce: --promise")) << out;
    EXPECT_TRUE(contains(out, "\n1 world proved, 1 of them without a promise, 0 failed\n")) << out;
  }
  const temporary_file other(named("telepathy"));
  const std::string lines = run(lsched({"verify", other.path, "--json", "-"})).out;
  EXPECT_TRUE(contains(lines, "no promise for its outputs\"")) << lines;
  EXPECT_TRUE(contains(lines, R"({"verified":1,"failed":0,"unpromised":1})")) << lines;
  const std::string told = run(lsched({"verify", other.path, "--promise", "allreduce"})).out;
  EXPECT_TRUE(contains(told, "\n0 worlds proved, 1 failed")) << told;
  const outcome required = run(lsched({"verify", other.path, "--require-promise"}));
  EXPECT_EQ(required.status, 1);
  EXPECT_TRUE(contains(required.err, "no promise for its outputs")) << required.err;
  EXPECT_TRUE(contains(run(lsched({"verify", other.path, "--op", "sum"})).err, "names no collective"));
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
      {"/dev/zero", "/dev/zero: exceeds the limit of 256 MiB for a file\n"}};
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
      {{"trace", "--svg", "/dev/null"}, R"({"traceEvents":[]})", "no op of a schedule is recorded there"},
      {{"trace"}, "", "line 1, column 1: not valid JSON"},
      {{"postmortem"}, "libsched", "not a recording"},
      {{"simulate"}, "// GOAL\nnum_ranks x\n", "line 2, column 11: expected the number of ranks"},
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

TEST(CommandVerify, lines_of_an_msccl_program_are_those_of_what_it_becomes) {
  std::string xml = content_of(LSCHED_TEST_SOURCE_DIR "/tests/collectives/written/msccl/all_pairs.xml");
  xml.replace(xml.find("srcbuf=\"i\" srcoff=\"2\""), 21, "srcbuf=\"i\" srcoff=\"0\"");
  const temporary_file wrong(xml);
  const outcome it = run(lsched({"verify", wrong.path, "--ranks", "3", "--count", "12"}));
  EXPECT_EQ(it.status, 1);
  EXPECT_TRUE(contains(it.out, "\nlines are those of `lsched show " + wrong.path + " --algorithm-file -`\n")) << it.out;
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

/// Returns the text of an algorithm file: a broadcast in which the root sends to each rank in turn.
std::string broadcast(const std::string& name, const std::string& head) {
  return "libsched algorithm 1\nname \"" + name + "\"\ncollective bcast\n" + head +
         "for s in 1 .. P - 1\n  if r == root\n    send in to (root + s) mod P\n"
         "  else if r == (root + s) mod P\n    out = recv from root\n  end\nend\n";
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
  const outcome some = run(lsched({"verify", of_four.path, "--ranks", "3-4", "--count", "5"}));
  EXPECT_EQ(some.status, 0) << some.err;
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

TEST(Command, a_file_of_some_numbers_of_ranks_is_taken_with_one_of_them) {
  const temporary_file of_five(broadcast("five", "needs P mod 5 == 0\n"));
  const outcome shown = run(lsched({"show", of_five.path}));
  EXPECT_TRUE(contains(shown.out, " of 5\n")) << shown.out << shown.err;
  const temporary_file of_sixteen(broadcast("sixteen", "needs P == 16\n"));
  const outcome timed = run(lsched({"simulate", of_sixteen.path}));
  EXPECT_TRUE(contains(timed.out, ", 16 ranks, ")) << timed.out << timed.err;
  EXPECT_TRUE(contains(run(lsched({"show", of_sixteen.path, "-n", "3"})).err, "sixteen needs P == 16, but P is 3"));
#if LSCHED_HAVE_BENCH
  const outcome measured = run(lsched({"bench", k_ring, "--bytes", "8,64", "--cell-seconds", "0.002"}));
  EXPECT_EQ(measured.status, 0) << measured.err;
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
  EXPECT_TRUE(contains(run(lsched({"verify", program, "--count", "7"})).err, "needs a count that is a multiple of 6"));
  const outcome timed = run(lsched({"simulate", program}));
  EXPECT_TRUE(contains(timed.out, ", 3 ranks, 1026 B")) << timed.out << timed.err;
}

#if LSCHED_HAVE_BENCH
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
  EXPECT_TRUE(contains(it.err, "two is refused by its proof: ")) << it.err;
  const temporary_file alone("libsched algorithm 1\nname \"lone\"\ncollective scan\nneeds P == 1\nout = copy in\n");
  const outcome refused = run(lsched({"bench", "coll", alone.path, "-n", "3"}));
  EXPECT_EQ(refused.status, 1);
  EXPECT_TRUE(contains(refused.err, "lone needs P == 1, but P is 3")) << refused.err;
}
#endif

TEST(CommandVerify, notes_are_told) {
  const temporary_file fragile(
      "libsched schedule 2\nname \"fragile\"\nrank 0 of 2\nflags\nactivation none seed 0\n"
      "buffer 0 input host f32 6\nbuffer 1 output host f32 6\n"
      "op 0 compute f32 b1[0 +6] = copy b0[0 +6] then 1\nop 1 signal_send to 1 tag 0 then 4\n"
      "op 2 signal_recv from 1 tag 0 then 3\nop 3 compute f32 b1[0 +6] = copy b0[0 +6] then 4\nop 4 nop\nexit 4\n"
      "libsched schedule 2\nname \"fragile\"\nrank 1 of 2\nflags\nactivation none seed 0\n"
      "op 0 signal_recv from 0 tag 0 then 1\nop 1 signal_send to 0 tag 0\nexit 1\n");
  const outcome it = run(lsched({"verify", fragile.path}));
  EXPECT_EQ(it.status, 0) << it.err;
  EXPECT_TRUE(
      contains(it.out, "\n        note: hazard: rank 0 op 0 (compute copy) and op 3 (compute copy): both write"))
      << it.out;
  const outcome lines = run(lsched({"verify", fragile.path, "--json", "-"}));
  EXPECT_TRUE(contains(lines.out, R"("findings":[],"notes":[{"property":"hazard")")) << lines.out;
}

/// Runs the command on a terminal. Types `typed` when the prompt appears. Returns the output.
std::string on_terminal(const words& command, const std::string& prompt = "", std::string typed = "") {
  int reader = -1;
  const pid_t process = forkpty(&reader, nullptr, nullptr, nullptr);
  if (process == 0) {
    alarm(static_cast<unsigned>(k_limit.count()));
    std::vector<char*> arguments;
    for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    execv(arguments[0], arguments.data());
    _exit(125);
  }
  std::string text;
  std::array<char, 4096> piece{};
  for (ssize_t got = 0; (got = read(reader, piece.data(), piece.size())) > 0;) {
    text.append(piece.data(), static_cast<std::size_t>(got));
    if (typed.empty() || !contains(text, prompt)) continue;
    EXPECT_EQ(write(reader, typed.data(), typed.size()), std::ssize(typed));
    typed.clear();
  }
  close(reader);
  waitpid(process, nullptr, 0);
  return text;
}

TEST(CommandVerify, shows_its_progress_on_a_line_of_its_own) {
  const auto begin = clock::now();
  const std::string text = on_terminal(lsched({"verify", "alltoall", "--ranks", "100-102", "--count", "1"}));
  const double seconds = std::chrono::duration<double>(clock::now() - begin).count();
  const outcome listed = run(lsched({"list", "--json", "-"}));
  ASSERT_EQ(listed.status, 0) << listed.err;
  const json entries = json::parse(listed.out);
  const auto algorithms = std::count_if(entries.begin(), entries.end(),
                                        [](const json& entry) { return entry["collective"] == "alltoall"; });
  const auto expected =
      3 * (2 * algorithms + 1);  // 3 rank counts; each algorithm in and out of place; one world with lists
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

// --- run ---------------------------------------------------------------------------------------------------

json last_line_of(const std::string& text) {
  const std::string lines = text.substr(0, text.find_last_not_of('\n') + 1);
  return json::parse(lines.substr(lines.rfind('\n') + 1));
}

TEST(CommandSimulate, the_last_line_is_the_summary) {
  const outcome it = run(lsched({"simulate", "--ranks", "64", "--bytes", "1024", "--json", "-"}));
  ASSERT_EQ(it.status, 0) << it.err;
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
  const outcome it = run(lsched({"simulate", path, "--json", "-"}));
  ASSERT_EQ(it.status, 0) << it.err;
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
  const outcome one = run(lsched(ask));
  ASSERT_EQ(one.status, 0) << one.err;
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

/// Ok-Topk must be faster than gTopk, gTopk faster than Topk-DSA, and Topk-DSA faster than TopkA. With about 1 /
/// density ranks, TopkA is as slow as a dense allreduce.
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

TEST(CommandSimulate, remarks_on_an_adaptive_sum_that_is_a_mean) {
  const std::string remark = "adasum/two_level on one node is the mean of its ranks, not an adaptive sum";
  words ask{"simulate", "adasum", "--algorithm", "two_level", "--ranks", "6"};
  EXPECT_TRUE(contains(run(lsched(ask)).out, "remark: " + remark));
  ask.insert(ask.end(), {"--json", "-"});
  const std::string out = run(lsched(ask)).out;
  EXPECT_EQ(json::parse(out.substr(0, out.find('\n')))["report"]["remark"], remark);
  ask.insert(ask.end(), {"--ranks-per-node", "3"});
  const outcome several = run(lsched(ask));
  EXPECT_EQ(several.status, 0) << several.err;
  EXPECT_FALSE(contains(several.out, "remark")) << several.out;
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
      run(lsched({"simulate", "--ranks", "16", "--bytes", "1000", "--S", "10", "--json", "-", "--critical-path"}));
  ASSERT_EQ(it.status, 0) << it.err;
  EXPECT_EQ(json::parse(it.out.substr(0, it.out.find('\n')))["report"]["critical_path"]["L"], 12);
}

TEST(CommandSimulate, traces_the_first_ranks_and_says_so) {
  const temporary_file file("");
  const outcome it = run(lsched({"simulate", "--ranks", "100", "--trace", file.path}));
  ASSERT_EQ(it.status, 0) << it.err;
  EXPECT_TRUE(contains(it.err, "the first 64 of 100 ranks")) << it.err;
  std::ifstream written(file.path);
  const json trace = json::parse(written);
  EXPECT_TRUE(contains(trace["otherData"]["remark"], "the first 64 of 100 ranks"));
  EXPECT_TRUE(std::ranges::all_of(trace["traceEvents"], [](const json& event) { return event["pid"] < 64; }));
}

TEST(CommandSimulate, looks_whether_it_can_write_before_it_works) {
  const outcome it = run(lsched({"simulate", "--ranks", "16777216", "--trace", "/nowhere/at/all.json"}));
  EXPECT_EQ(it.status, 1);
  EXPECT_TRUE(contains(it.err, "/nowhere/at/all.json: cannot be written")) << it.err;
}

TEST(CommandSimulate, goal_files_come_in_and_go_out) {
  const temporary_file file("");
  const outcome out = run(lsched({"simulate", "partial_allreduce", "--ranks", "5", "--activation", "majority",
                                  "--initiator", "3", "--skew", "linear", "--goal", file.path, "--json", "-"}));
  ASSERT_EQ(out.status, 0) << out.err;
  std::ifstream written(file.path);
  const std::string text{std::istreambuf_iterator<char>(written), {}};
  EXPECT_TRUE(contains(text, "// resolved for one simulated scenario: skew linear, noise none, seed 1")) << text;
  const outcome in = run(lsched({"simulate", file.path, "--json", "-"}));
  ASSERT_EQ(in.status, 0) << in.err;
  EXPECT_EQ(last_line_of(in.out)["finish_us"], last_line_of(out.out)["finish_us"]);
  const outcome proved = run(lsched({"verify", file.path}));
  EXPECT_TRUE(contains(proved.out, "no promise for its outputs") && contains(proved.out, "0 failed")) << proved.out;
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
  const outcome it = run(lsched({"simulate", "--fig9", "--ranks", "32", "--json", "-"}));
  ASSERT_EQ(it.status, 0) << it.err;
  const json solo = last_line_of(it.out);
  EXPECT_EQ(solo["kind"], "modelled");
  EXPECT_EQ(solo["nap"], 1);
  const outcome table = run(lsched({"simulate", "--fig9", "--ranks", "8"}));
  EXPECT_TRUE(contains(table.out, "Modelled, not measured: ")) << table.out;
}

TEST(CommandRun, gives_each_rank_its_place_and_its_own_words) {
  const outcome it = run(shell_ranks({"-n", "3"},
                                     "echo rank $LSCHED_RUN_RANK of $LSCHED_RUN_SIZE fd $LSCHED_RUN_FD; "
                                     "test -e /proc/self/fd/$LSCHED_RUN_FD"));
  EXPECT_EQ(it.status, 0) << it.err;
  for (const char* line : {"rank 0 of 3 fd ", "rank 1 of 3 fd ", "rank 2 of 3 fd "})
    EXPECT_TRUE(contains(it.out, line)) << it.out;

  // All words after the name of the program are arguments of the program, even if the command has options of the same
  // names. The program may also have the name of a subcommand.
  const outcome echo = run(lsched({"run", "-n", "1", "echo", "list", "--help", "-n", "--version"}));
  EXPECT_EQ(echo.out, "list --help -n --version\n") << echo.err;
  const outcome named = run(lsched({"run", "-n1", "--", "info"}));
  EXPECT_EQ(named.status, 127) << named.out;
}

TEST(CommandRun, standard_input_is_rank_0s) {
  const outcome it = run({"/bin/sh", "-c",
                          std::string("echo hello | ") + LSCHED_TEST_COMMAND +
                              " run -n 2 /bin/sh -c 'read word; echo $LSCHED_RUN_RANK:$word'"});
  EXPECT_EQ(it.status, 0) << it.err;
  EXPECT_TRUE(contains(it.out, "0:hello\n")) << it.out;
  EXPECT_TRUE(contains(it.out, "1:\n")) << it.out;
}

TEST(CommandRun, answers_the_status_of_the_rank_that_failed) {
  const outcome it = run(shell_ranks({"-n", "3"}, "test $LSCHED_RUN_RANK != 1 || exit 7"));
  EXPECT_EQ(it.status, 7) << it.err;
  EXPECT_TRUE(contains(it.err, "rank 1 (pid ")) << it.err;
  EXPECT_TRUE(contains(it.err, "exited with status 7")) << it.err;
}

TEST(CommandRun, tells_of_a_rank_that_was_killed) {
  const outcome it = run(shell_ranks({"-n", "3"}, "test $LSCHED_RUN_RANK != 2 || kill -KILL $$"));
  EXPECT_EQ(it.status, 128 + SIGKILL) << it.err;
  EXPECT_TRUE(contains(it.err, "lsched run: rank 2 (pid ")) << it.err;
  EXPECT_TRUE(contains(it.err, "was killed by signal 9 (Killed)\n")) << it.err;
}

/// Returns the command line of three ranks of an endless soak. Each rank runs `script` before it opens its world.
words endless_ranks(const std::string& script) {
  return shell_ranks({"-n", "3"},
                     script + "; exec " + LSCHED_TEST_COMMAND + " soak --iterations 1000000000000 --progress");
}

TEST(CommandRun, survivors_of_a_killed_rank_learn_of_it_and_end) {
  program it(endless_ranks("test $LSCHED_RUN_RANK != 1 || echo pid $$"));
  ASSERT_TRUE(it.wait_for_error("rounds/s", 1)) << it.err();
  const pid_t victim = std::stoi(it.out().substr(4));
  ASSERT_GT(victim, 1);
  kill(victim, SIGKILL);
  EXPECT_EQ(it.finish(), 128 + SIGKILL) << it.err();
  EXPECT_TRUE(contains(it.err(), "rank 1 (pid " + std::to_string(victim) + ") was killed by signal 9")) << it.err();
  EXPECT_TRUE(contains(it.err(), "lsched: LSCHED_ERR_PEER: ")) << it.err();
}

TEST(CommandRun, tells_of_a_rank_that_ended_well_in_an_open_world) {
  const std::string soak = LSCHED_TEST_COMMAND " soak --iterations 1000000000000 --progress";
  program it(shell_ranks({"-n", "3"},
                         "test $LSCHED_RUN_RANK = 1 || exec " + soak + "; " + soak + " & echo pid $!; wait; exit 0"));
  ASSERT_TRUE(it.wait_for_error("rounds/s", 1)) << it.err();
  kill(std::stoi(it.out().substr(4)), SIGKILL);
  EXPECT_EQ(it.finish(), 1) << it.err();
  EXPECT_TRUE(contains(it.err(), "lsched run: rank 1 (pid ")) << it.err();
  EXPECT_TRUE(contains(it.err(), " exited with status 0 without closing its world: ")) << it.err();
}

TEST(CommandRun, prepends_ranks_to_lines) {
  const std::string script = "echo out; printf 'one\\ntwo' >&2; test $LSCHED_RUN_RANK = 0 || exit 3";
  const outcome it = run(shell_ranks({"-n", "2", "--prepend-rank"}, script));
  EXPECT_EQ(it.status, 3) << it.err;
  EXPECT_TRUE(it.out == "0: out\n1: out\n" || it.out == "1: out\n0: out\n") << it.out;
  for (const char* lines : {"0: one\n", "0: two\n", "1: one\n", "1: two\n"})
    EXPECT_TRUE(contains(it.err, lines)) << it.err;
  const outcome much = run(shell_ranks({"-n", "3", "--prepend-rank"}, "seq 30000; sleep 0.1 & exit 0"));
  EXPECT_EQ(std::count(much.out.begin(), much.out.end(), '\n'), 90000);
}

TEST(CommandRun, nobody_waits_for_a_rank_that_died_before_it_joined) {
  const auto begin = clock::now();
  const outcome it = run(endless_ranks("test $LSCHED_RUN_RANK != 1 || kill -KILL $$"));
  EXPECT_EQ(it.status, 128 + SIGKILL) << it.err;
  EXPECT_TRUE(contains(it.err, "lsched: LSCHED_ERR_PEER: ")) << it.err;
  EXPECT_LT(clock::now() - begin, 30s);  // well below the limit for opening, a minute
}

TEST(CommandRun, ends_ranks_that_take_too_long) {
  const outcome soft =
      run(shell_ranks({"-n", "2", "--timeout", "0.2"}, "test $LSCHED_RUN_RANK = 0 || exec sleep 1000"));
  EXPECT_EQ(soft.status, 124) << soft.err;
  EXPECT_TRUE(contains(soft.err, "time limit of 0.2 s reached: ending 1 of 2 ranks\n")) << soft.err;
  EXPECT_TRUE(contains(soft.err, "rank 1 (pid ")) << soft.err;

  const outcome stubborn = run(shell_ranks({"-n", "1", "--timeout", "0.2"}, "trap '' TERM; exec sleep 1000"));
  EXPECT_EQ(stubborn.status, 124) << stubborn.err;
  EXPECT_TRUE(contains(stubborn.err, "was killed by signal 9")) << stubborn.err;
}

TEST(CommandRun, accepts_the_name_that_launchers_of_mpi_have_for_the_number_of_ranks) {
  const outcome it = run(lsched({"run", "-np", "3", "echo", "-np", "5"}));
  EXPECT_EQ(it.status, 0) << it.err;
  EXPECT_EQ(it.out, "-np 5\n-np 5\n-np 5\n");
}

TEST(CommandRun, programs_that_do_not_exist_are_refused_before_anything_starts) {
  const outcome missing = run(lsched({"run", "-n", "2", "no-such-program-anywhere"}));
  EXPECT_EQ(missing.status, 127);
  EXPECT_EQ(missing.err, "lsched: cannot run \"no-such-program-anywhere\": no such program\n");
  EXPECT_EQ(run(lsched({"run", "-n", "2", "/tmp"})).status, 126);
  const outcome forbidden = run(lsched({"run", "-n", "2", LSCHED_TEST_SOURCE_DIR "/CMakeLists.txt"}));
  EXPECT_EQ(forbidden.status, 126);
}

TEST(CommandRun, programs_that_cannot_be_executed_fail_with_the_reason) {
  std::array<char, 32> path{"/tmp/lsched-test-XXXXXX"};
  const int file = mkstemp(path.data());
  ASSERT_GE(file, 0);
  ASSERT_EQ(write(file,
                  "\x7f"
                  "ELF, not really",
                  16),
            16);
  fchmod(file, 0700);
  close(file);
  const outcome it = run(lsched({"run", "-n", "2", path.data()}));
  unlink(path.data());
  EXPECT_EQ(it.status, 126);
  EXPECT_TRUE(contains(it.err, "neither a program for this machine nor a script")) << it.err;
}

TEST(CommandRun, passes_signals_on) {
  for (const int signal : {SIGTERM, SIGINT}) {
    program it(shell_ranks({"-n", "2"}, "trap 'exit 9' TERM INT; echo ready; while :; do sleep 0.02; done"));
    ASSERT_TRUE(it.wait_for_output("ready\n", 2)) << it.err();
    it.send(signal);
    EXPECT_EQ(it.finish(), 9) << it.err();
  }
}

TEST(CommandRun, no_rank_outlives_the_launcher) {
  program it(shell_ranks({"-n", "3"}, "echo ready; exec sleep 1000"));
  ASSERT_TRUE(it.wait_for_output("ready\n", 3)) << it.err();
  it.send(SIGKILL);
  EXPECT_EQ(it.finish(), 128 + SIGKILL);  // finish() returns after the last rank has ended
}

TEST(CommandRun, bind_gives_each_rank_one_core) {
  const outcome it = run(shell_ranks({"-n", "3", "--pin"}, "nproc"));
  EXPECT_EQ(it.status, 0) << it.err;
  EXPECT_EQ(it.out, "1\n1\n1\n");
}

// --- soak --------------------------------------------------------------------------------------------------

/// Checks the output of a soak of `ranks` ranks without violations: a single line.
void expect_clean(const outcome& it, const std::string& policy, int ranks) {
  ASSERT_EQ(it.status, 0) << it.err;
  EXPECT_EQ(it.err, "");
  const json line = json::parse(it.out);
  EXPECT_EQ(line["bench"], "soak");
  EXPECT_EQ(line["policy"], policy);
  EXPECT_EQ(line["ranks"], ranks);
  EXPECT_EQ(line["rounds"], 200);
  EXPECT_EQ(line["violations"], 0);
  EXPECT_GE(line["rounds_of_world"], 200);
  EXPECT_GT(line["nap_mean"], 0.0);
  EXPECT_LE(line["nap_mean"], ranks);
}

class CommandStress : public testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(CommandStress, violates_nothing) {
  const auto [policy, ranks] = GetParam();
  expect_clean(run(lsched({"soak", "--activation", policy, "--ranks", std::to_string(ranks), "--iterations", "200",
                           "--delay-us", "100", "--seed", "7"})),
               policy, ranks);
}

INSTANTIATE_TEST_SUITE_P(policies, CommandStress,
                         testing::Combine(testing::Values("solo", "majority", "full"), testing::Values(1, 2, 3)),
                         [](const auto& it) {
                           return std::string(std::get<0>(it.param)) + std::to_string(std::get<1>(it.param));
                         });

TEST(CommandStress, quorums_and_bounds_hold_while_ranks_leave_one_after_the_other) {
  for (const char* policy : {"quorum(2)", "all_of(2)+every(3)", "first_of(2)", "solo+every(2)", "full"}) {
    const outcome it = run(lsched({"soak", "--activation", policy, "--ranks", "3", "--iterations", "200", "--delay-us",
                                   "100", "--seed", "9", "--leave-early"}));
    ASSERT_EQ(it.status, 0) << it.err;
    EXPECT_EQ(json::parse(it.out)["violations"], 0) << policy;
  }
}

TEST(CommandStress, ranks_that_are_stopped_now_and_then_violate_nothing) {
  for (const char* policy : {"solo", "quorum(2)", "full"}) {
    const outcome it = run(lsched({"soak", "--activation", policy, "--ranks", "3", "--iterations", "200", "--delay-us",
                                   "200", "--seed", "7", "--stops", "5"}));
    expect_clean(it, policy, 3);
    EXPECT_GT(json::parse(it.out)["stops"], 0) << policy;
  }
}

/// Returns all processes of the machine that have this word on their command line.
std::vector<pid_t> processes_with(const std::string& word) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") == std::string::npos &&
        contains(content_of(entry.path() / "cmdline"), '\0' + word + '\0'))
      found.push_back(std::stoi(name));
  }
  return found;
}

/// Returns the letter for the state of a process in /proc: T for a stopped process.
char state_of(pid_t process) {
  const std::string text = content_of("/proc/" + std::to_string(process) + "/stat");
  const auto end = text.rfind(')');
  return end == std::string::npos ? '?' : text[end + 2];
}

TEST(CommandStress, whatever_is_killed_while_ranks_are_stopped_leaves_nothing_behind) {
  const std::string seed = "7000" + std::to_string(getpid());  // no other process has this word
  program it(lsched({"soak", "--ranks", "3", "--iterations", "1000000000000", "--delay-us", "200", "--seed", seed,
                     "--stops", "1", "--progress"}));
  ASSERT_TRUE(it.wait_for_error("rounds/s", 1)) << it.err();
  const auto all = processes_with(seed);
  ASSERT_EQ(all.size(), 1u + 3 * 3);  // the launcher, and for each of three ranks the rank, a stopper and a guard
  pid_t stopped = 0;
  for (const auto end = clock::now() + 10s; stopped == 0 && clock::now() < end;)
    for (const pid_t each : all)
      if (state_of(each) == 'T') stopped = each;
  ASSERT_NE(stopped, 0);
  kill(stopped, SIGKILL);
  EXPECT_EQ(it.finish(), 128 + SIGKILL) << it.err();
  for (const auto end = clock::now() + 10s; !processes_with(seed).empty() && clock::now() < end;) usleep(1000);
  EXPECT_TRUE(processes_with(seed).empty());
}

// --- postmortem --------------------------------------------------------------------------------------------

/// Runs `lsched postmortem` until its output contains the text, for at most 20 s. Returns the last output.
outcome postmortem_with(const std::string& text, const std::string& source) {
  outcome it;
  for (const auto end = clock::now() + 20s; clock::now() < end; usleep(10'000)) {
    it = run(lsched({"postmortem", source}));
    if (contains(it.out, text)) break;
  }
  return it;
}

TEST(CommandPostmortem, finds_the_rank_that_others_wait_for_while_they_wait_and_after_they_were_killed) {
  const temporary_file file("");
  program it(endless_ranks("test $LSCHED_RUN_RANK != 1 || echo pid $$"), {{"LSCHED_RECORDER", file.path}});
  ASSERT_TRUE(it.wait_for_error("rounds/s", 1)) << it.err();
  const pid_t victim = std::stoi(it.out().substr(4));
  ASSERT_GT(victim, 1);
  kill(victim, SIGSTOP);
  const std::string stopped = "rank 1 (pid " + std::to_string(victim) + ", stopped): ";
  for (const std::string& source : {std::to_string(it.process()), file.path}) {
    const outcome asked = postmortem_with(", rank 1) since ", source);
    EXPECT_EQ(asked.status, 0) << asked.err;
    EXPECT_TRUE(contains(asked.out, stopped)) << asked.out;
    EXPECT_TRUE(contains(asked.out, ", rank 1) since ")) << asked.out;
    EXPECT_TRUE(contains(asked.out, ", runs): in ")) << asked.out;
  }
  // The ranks are stopped while one of them waits. A rank that ran until it is killed could notice the death of rank 1
  // first, and on a busy machine a rank may be between two waits for long.
  const json running = json::parse(run(lsched({"postmortem", "--json", "-", file.path})).out);
  std::vector<pid_t> ranks;
  for (const json& each : running["ranks"]) ranks.push_back(each["pid"].get<pid_t>());
  ASSERT_EQ(ranks.size(), 3u);
  for (const auto end = clock::now() + 20s;;) {
    for (const pid_t each : ranks) kill(each, SIGSTOP);
    if (contains(run(lsched({"postmortem", file.path})).out, ", stopped): in ") || clock::now() > end) break;
    for (const pid_t each : ranks)
      if (each != victim) kill(each, SIGCONT);
    run(lsched({"postmortem", file.path}));  // gives the ranks time to run
  }
  it.send(SIGKILL);
  EXPECT_EQ(it.finish(), 128 + SIGKILL);
  const outcome after = postmortem_with("rank 1 (pid " + std::to_string(victim) + ", ended): ", file.path);
  EXPECT_TRUE(contains(after.out, ", ended): in ")) << after.out;
  EXPECT_FALSE(contains(after.out, ", runs)")) << after.out;

  const json all = json::parse(run(lsched({"postmortem", "--json", "-", file.path})).out);
  ASSERT_EQ(all["ranks"].size(), 3u);
  EXPECT_EQ(all["ranks"][1]["pid"], victim);
  EXPECT_EQ(all["ranks"][1]["state"], "ended");
  EXPECT_FALSE(all["ranks"][1]["schedules"].empty());
  const json trace = json::parse(run(lsched({"postmortem", "--trace", "-", file.path})).out);
  EXPECT_TRUE(std::ranges::any_of(trace["traceEvents"], [](const json& event) { return event["ph"] == "X"; }));
}

/// If a program of a rank launches ranks itself, the inner ranks have a separate recording or no recording. The file
/// belongs to the ranks of the outer launcher.
TEST(CommandPostmortem, is_of_the_outer_launcher) {
  const temporary_file file("");
  const outcome it =
      run(lsched({"run", "-n", "2", "/bin/sh", "-c",
                  LSCHED_TEST_COMMAND " run -n 1 true; exec " LSCHED_TEST_COMMAND " soak --iterations 10"}),
          {{"LSCHED_RECORDER", file.path}});
  EXPECT_EQ(it.status, 0) << it.err;
  EXPECT_EQ(json::parse(run(lsched({"postmortem", "--json", "-", file.path})).out)["ranks"].size(), 2u);
}

// Rank 1 has destroyed the schedule too early, and rank 2 has never created the schedule. The process id of rank 2 now
// belongs to another process.
TEST(CommandPostmortem, names_ranks_that_do_not_have_a_schedule) {
  const temporary_file file("");
  const auto segment = *lsched::shm_segment::create(3, 1 << 20, 0, file.path);
  constexpr std::array<lsched::rank, 3> members{0, 1, 2};
  std::vector<std::unique_ptr<lsched::shm_endpoint>> ranks;
  for (lsched::rank r = 0; r < 3; ++r) ranks.push_back(std::move(*lsched::shm_endpoint::open(segment, r)));
  for (lsched::rank r = 0; r < 2; ++r) {
    const auto& net = ranks[static_cast<std::size_t>(r)];
    ASSERT_TRUE(net->attach(0, members, false, {}));
    *net->put_on_record(0, 0, "allreduce/ring #0") = 17 - static_cast<lsched::round_no>(r);
  }
  ASSERT_TRUE(ranks[2]->attach(0, members, false, {}));
  const std::array all{ranks[0]->address_of(0), ranks[1]->address_of(0), ranks[2]->address_of(0)};
  ASSERT_EQ(ranks[1]->link(0, all), lsched::status::ok);
  ranks[1]->detach(0);
  segment->record(2).process_start.fetch_add(1);
  const outcome it = run(lsched({"postmortem", file.path}));
  EXPECT_TRUE(contains(it.out, ", runs): has called for round 17 of allreduce/ring #0\n")) << it.out;
  EXPECT_TRUE(contains(it.out, ", ended): has no schedule\n")) << it.out;
  EXPECT_TRUE(contains(it.out, "allreduce/ring #0, round 17: 1 of 3 ranks have not called for it: rank 1\n")) << it.out;
  EXPECT_TRUE(contains(it.out, "allreduce/ring #0: 2 of 3 ranks do not have this schedule: ranks 1,2\n")) << it.out;
}

TEST(CommandPostmortem, of_ranks_that_ended_well_says_so) {
  const temporary_file file("");
  const outcome it = run(lsched({"soak", "--ranks", "2", "--iterations", "10"}), {{"LSCHED_RECORDER", file.path}});
  ASSERT_EQ(it.status, 0) << it.err;
  const outcome asked = run(lsched({"postmortem", file.path}));
  EXPECT_EQ(asked.status, 0) << asked.err;
  EXPECT_TRUE(contains(asked.out, ", closed its world): has no schedule\n")) << asked.out;
}

TEST(CommandPostmortem, names_what_it_cannot_read) {
  const temporary_file file("no recording");
  const std::vector<std::pair<std::string, std::string>> mistakes{
      {file.path, "this is not a recording of this version"},
      {"/nowhere/at/all", "/nowhere/at/all: no such file"},
      {"1", "process 1"},
      {std::to_string(getpid()), "has created no world"},
      {"2147483647", "process 2147483647: there is no such process and no such file"}};
  for (const auto& [source, why] : mistakes) {
    const outcome it = run(lsched({"postmortem", source}));
    EXPECT_EQ(it.status, 1);
    EXPECT_TRUE(contains(it.err, why)) << source << ": " << it.err;
    EXPECT_TRUE(it.out.empty());
  }
  EXPECT_EQ(run(lsched({"postmortem"})).status, 2);
  EXPECT_EQ(run(lsched({"postmortem", "--json", "-", "--trace", "-", file.path})).status, 2);
}

TEST(CommandRun, refuses_a_recorder_that_is_another_file_and_says_where_ranks_were_when_time_is_up) {
  const temporary_file file("something else");
  const outcome refused = run(shell_ranks({"-n", "2"}, "echo started"), {{"LSCHED_RECORDER", file.path}});
  EXPECT_EQ(refused.status, 1);
  EXPECT_TRUE(contains(refused.err, file.path)) << refused.err;
  EXPECT_TRUE(refused.out.empty());
  const outcome late =
      run(shell_ranks({"-n", "2", "--timeout", "2"}, "exec " LSCHED_TEST_COMMAND " soak --iterations 1000000000000"));
  EXPECT_EQ(late.status, 124) << late.err;
  EXPECT_TRUE(contains(late.err, "lsched run: rank 1 (pid ")) << late.err;
  EXPECT_TRUE(contains(late.err, "partial_allreduce/recursive_doubling #1")) << late.err;
}

// --- processes behind wrapper scripts ----------------------------------------------------------------------

/// Programs that do not notice the end of the launcher and would run for ever. The destructor kills the programs that
/// still run.
class endless_programs {
 public:
  endless_programs() : mark_("7100" + std::to_string(getpid())) {}  // no other process has this word
  endless_programs(const endless_programs&) = delete;
  endless_programs& operator=(const endless_programs&) = delete;
  ~endless_programs() {
    for (const pid_t each : processes_with(mark_)) kill(each, SIGKILL);
  }

  /// Returns the script with two words replaced: PROGRAM by the command line of a rank that sleeps most of the time,
  /// and SLEEP by the command line of a program that is not a rank.
  std::string fill_in(std::string script) const {
    const std::string rank = LSCHED_TEST_COMMAND " soak --iterations 1000000000 --delay-us 1000000 --seed " + mark_;
    for (const auto& [name, command] : {std::pair("PROGRAM", rank), std::pair("SLEEP", "sleep " + mark_)})
      for (auto at = script.find(name); at != std::string::npos; at = script.find(name))
        script.replace(at, std::strlen(name), command);
    return script;
  }

  std::vector<pid_t> alive() const { return processes_with(mark_); }

  /// Returns the number of programs that have opened their world.
  std::ptrdiff_t joined() const {
    return std::ranges::count_if(alive(), [](pid_t each) {
      return contains(content_of("/proc/" + std::to_string(each) + "/maps"), "memfd:libsched");
    });
  }

  /// Returns true if `ranks` programs open their world within 20 s.
  bool have_joined(std::ptrdiff_t ranks) const {
    return comes_true([&] { return ranks == joined(); });
  }

  /// Returns true if all programs end within 20 s.
  bool are_gone() const {
    return comes_true([&] { return alive().empty(); });
  }

 private:
  template <class Condition>
  static bool comes_true(const Condition& condition) {
    for (const auto end = clock::now() + 20s; clock::now() < end; usleep(1000))
      if (condition()) return true;
    return false;
  }

  std::string mark_;
};

/// Scripts that start the program of a rank in four ways: in the background, where a SIGTERM to the script does not
/// reach the program; in the foreground; in a separate session, as a grandchild of the script; and as a daemon, whose
/// parent has ended.
class CommandWrapper : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(scripts, CommandWrapper,
                         testing::Values("PROGRAM & wait", "PROGRAM; true", "setsid sh -c 'PROGRAM; true' & wait",
                                         "(PROGRAM &); exec sleep 1000"),
                         [](const auto& it) { return std::to_string(it.index); });

TEST_P(CommandWrapper, no_rank_outlives_a_launcher_that_a_signal_ends) {
  for (const int signal : {SIGTERM, SIGKILL}) {
    const endless_programs programs;
    program it(shell_ranks({"-n", "3"}, programs.fill_in(GetParam())));
    ASSERT_TRUE(programs.have_joined(3)) << it.err();
    it.send(signal);
    EXPECT_EQ(it.finish(), 128 + signal) << it.err();
    EXPECT_TRUE(programs.are_gone()) << signal;
  }
}

TEST_P(CommandWrapper, no_rank_outlives_the_time_limit) {
  const endless_programs programs;
  program it(shell_ranks({"-n", "3", "--timeout", "1"}, programs.fill_in(GetParam())));
  EXPECT_EQ(it.finish(), 124) << it.err();
  EXPECT_TRUE(programs.alive().empty());  // no program is left when the launcher ends
}

TEST(CommandWrapper, no_rank_outlives_scripts_of_which_one_fails) {
  const endless_programs programs;
  program it(shell_ranks({"-n", "3"}, programs.fill_in("PROGRAM & sleep 1; test $LSCHED_RUN_RANK != 1 || exit 3")));
  EXPECT_EQ(it.finish(), 3) << it.err();
  EXPECT_TRUE(programs.alive().empty());
}

TEST(CommandWrapper, ranks_learn_that_a_program_behind_a_script_was_killed) {
  const endless_programs programs;
  program it(shell_ranks({"-n", "3"}, programs.fill_in("PROGRAM; exit $?")));
  ASSERT_TRUE(programs.have_joined(3)) << it.err();
  kill(programs.alive().front(), SIGKILL);
  EXPECT_GT(it.finish(), 0) << it.err();
  EXPECT_TRUE(contains(it.err(), "LSCHED_ERR_PEER")) << it.err();
  EXPECT_TRUE(programs.alive().empty());
}

TEST(CommandWrapper, a_launcher_that_a_launcher_has_started_ends_with_it) {
  for (const int signal : {SIGINT, SIGKILL}) {
    const endless_programs programs;
    program it(lsched({"run", "-n", "2", LSCHED_TEST_COMMAND, "run", "-n", "2", "/bin/sh", "-c",
                       programs.fill_in("PROGRAM & wait")}));
    ASSERT_TRUE(programs.have_joined(4)) << it.err();
    it.send(signal);
    EXPECT_EQ(it.finish(), 128 + signal) << it.err();
    EXPECT_TRUE(programs.are_gone()) << signal;
  }
}

/// Returns the amount of shared memory in use on this machine, in kB.
std::int64_t shared_memory_kb() {
  const std::string all = content_of("/proc/meminfo");
  return std::stoll(all.substr(all.find("Shmem:") + std::strlen("Shmem:")));
}

/// Starts `worlds` worlds one after the other. While a world starts or runs, kills all of its processes, only the
/// launcher, or one rank.
void kill_worlds(int worlds, unsigned seed) {
  const lsched::testing::shared_memory_names names;
  const std::int64_t before_kb = shared_memory_kb();
  std::mt19937 draw(seed);
  int joined = 0;
  for (int i = 0; i < worlds; ++i) {
    const endless_programs programs;
    program it(shell_ranks({"-n", std::to_string(2 + draw() % 4)}, programs.fill_in("exec PROGRAM")));
    usleep(static_cast<useconds_t>(draw() % 120'000));
    const std::vector<pid_t> ranks = programs.alive();
    const auto how = draw() % 3;
    if (programs.joined() > 0) ++joined;
    if (how < 2 || ranks.empty()) it.send(SIGKILL);
    if (how == 0)
      for (const pid_t each : ranks) kill(each, SIGKILL);
    if (how == 2 && !ranks.empty()) kill(ranks[draw() % ranks.size()], SIGKILL);
    EXPECT_GT(it.finish(), 0) << "world " << i;
    ASSERT_TRUE(programs.are_gone()) << "world " << i;
  }
  EXPECT_GT(joined, worlds / 4) << "too many worlds are killed before they open";
  EXPECT_EQ(names.left_behind(), "");
  EXPECT_LT(shared_memory_kb() - before_kb, std::int64_t{64} << 10);
}

TEST(CommandWrapper, killed_worlds_leave_nothing_behind) { kill_worlds(12, 5); }

class CommandWrapperSoak : public testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(seeds, CommandWrapperSoak, testing::Range(0u, 4u));
TEST_P(CommandWrapperSoak, killed_worlds_leave_nothing_behind) { kill_worlds(2500, GetParam()); }

TEST(CommandWrapper, programs_that_are_no_ranks_do_not_keep_the_output_open) {
  const endless_programs programs;
  EXPECT_EQ(run(shell_ranks({"-n", "2", "--timeout", "0.2"}, programs.fill_in("SLEEP & wait"))).status, 124);
  EXPECT_EQ(run(shell_ranks({"-n", "2"}, programs.fill_in("trap '' TERM; SLEEP & true"))).status, 0);
  EXPECT_TRUE(programs.alive().empty());
}

TEST(CommandWrapper, what_nobody_waits_for_has_time_to_end) {
  const outcome it = run(shell_ranks({"-n", "2"}, "(sleep 0.3; echo late) &"));
  EXPECT_EQ(it.status, 0) << it.err;
  EXPECT_EQ(it.out, "late\nlate\n");
}

/// The parent of the script's grandchild ends, so that the launcher becomes the parent. While the launcher waits for
/// ranks, the script checks whether the grandchild still exists.
TEST(CommandWrapper, the_launcher_collects_orphans_and_takes_none_for_a_rank) {
  const outcome it = run(shell_ranks({"-n", "2"},
                                     "orphan=$(sh -c '(sleep 0.1; exit 5) >/dev/null & echo $!'); "
                                     "for i in 1 2 3 4 5 6 7 8 9; do sleep 0.2; test -e /proc/$orphan || exit 0; done; "
                                     "exit 6"));
  EXPECT_EQ(it.status, 0) << it.err;
  EXPECT_EQ(it.err, "");
}

TEST(CommandWrapper, children_that_the_launcher_did_not_start_live_on) {
  const endless_programs programs;
  const outcome it = run(
      {"/bin/sh", "-c", programs.fill_in("SLEEP >/dev/null 2>&1 & exec ") + LSCHED_TEST_COMMAND + " run -n 2 true"});
  EXPECT_EQ(it.status, 0) << it.err;
  EXPECT_EQ(programs.alive().size(), 1u);
}

TEST(CommandWrapper, on_a_terminal_rank_0_reads_and_the_interrupt_key_ends_all) {
  const endless_programs programs;
  EXPECT_TRUE(contains(
      on_terminal(shell_ranks({"-n", "2"}, "echo ready; read word; echo got $word"), "ready", "hello\n"), "got hello"));
  EXPECT_TRUE(
      contains(on_terminal(shell_ranks({"-n", "1"}, programs.fill_in("SLEEP & echo ready; wait")), "ready", "\3"),
               "was killed by signal 2"));
  EXPECT_TRUE(programs.alive().empty());
}

TEST(CommandJoin, a_world_of_the_launcher_is_used) {
  const words soak{LSCHED_TEST_COMMAND, "soak", "--iterations", "200", "--delay", "busy"};
  words command = lsched({"run", "-n", "2"});
  command.insert(command.end(), soak.begin(), soak.end());
  expect_clean(run(command), "solo", 2);

  command.insert(command.end(), {"--ranks", "3"});
  const outcome other = run(command);
  EXPECT_EQ(other.status, 1);
  EXPECT_TRUE(contains(other.err, "--ranks 3, but the launcher started 2")) << other.err;
}

TEST(CommandJoin, json_goes_to_the_file_that_was_named) {
  const std::string path = testing::TempDir() + "lsched-soak-" + std::to_string(getpid()) + ".json";
  const outcome it = run(lsched({"soak", "--ranks", "2", "--iterations", "200", "--json", path}));
  EXPECT_EQ(it.out, "");
  std::FILE* file = std::fopen(path.c_str(), "r");
  ASSERT_NE(file, nullptr) << it.err;
  std::string text(4096, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  unlink(path.c_str());
  expect_clean({it.status, text, it.err}, "solo", 2);

  const outcome nowhere = run(lsched({"soak", "--ranks", "3", "--iterations", "1", "--json", "/no/such/folder/file"}));
  EXPECT_EQ(nowhere.status, 1);
  EXPECT_FALSE(contains(nowhere.err, "PEER")) << nowhere.err;
  EXPECT_TRUE(contains(nowhere.err, "cannot write /no/such/folder/file")) << nowhere.err;
}

TEST(CommandJoin, contradictory_environments_are_errors) {
  const outcome half = run(lsched({"soak", "--iterations", "1"}), {{"LSCHED_RUN_RANK", "0"}});
  EXPECT_EQ(half.status, 1);
  EXPECT_TRUE(contains(half.err, "only some of the launcher's variables")) << half.err;
  const outcome stale = run(lsched({"soak", "--iterations", "1"}),
                            {{"LSCHED_RUN_FD", "77"}, {"LSCHED_RUN_RANK", "0"}, {"LSCHED_RUN_SIZE", "2"}});
  EXPECT_EQ(stale.status, 1);
  EXPECT_TRUE(contains(stale.err, "lsched: LSCHED_ERR_")) << stale.err;
  const outcome alone = run(lsched({"soak", "--iterations", "1", "--transport", "mpi"}));
  EXPECT_EQ(alone.status, 1);
  EXPECT_TRUE(contains(alone.err, "MPI launcher")) << alone.err;
}

#if LSCHED_HAVE_MPI

TEST(CommandJoin, a_launcher_of_another_mpi_is_named_instead_of_running_singletons) {
  const outcome it =
      run(lsched({"soak", "--iterations", "1"}), {{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "0"}});
  EXPECT_EQ(it.status, 1);
  EXPECT_TRUE(contains(it.err, "one of 2 started by an MPI launcher (OMPI_COMM_WORLD_SIZE, as of Open MPI)")) << it.err;
  EXPECT_TRUE(contains(it.err, "alone in MPI_COMM_WORLD of ")) << it.err;
}

TEST(CommandPostmortem, of_an_mpi_world_has_a_file_for_each_node_and_is_refused_without_shared_memory) {
  const temporary_file file("");
  const std::string said = file.path + ".err";  // MPI's launcher may lose the output of short ranks
  const auto soak = [&](const char* ranks, const char* transport) {
    return run({LSCHED_TEST_MPIEXEC, "-n", ranks, "/bin/sh", "-c", "exec \"$@\" 2> " + said + ".$PMI_RANK", "sh",
                LSCHED_TEST_COMMAND, "soak", "--iterations", "20", "--transport", transport},
               {{"LSCHED_RECORDER", file.path}, {"LSCHED_RANKS_PER_NODE", "2"}});
  };
  ASSERT_EQ(soak("4", "auto").status, 0);
  for (const int first : {0, 2}) {
    const std::string path = file.path + "." + std::to_string(first);
    const outcome it = run(lsched({"postmortem", path}));
    unlink(path.c_str());
    for (const int rank : {first, first + 1})
      EXPECT_TRUE(contains(it.out, "rank " + std::to_string(rank) + " (pid ")) << it.out << it.err;
  }
  for (const char* ranks : {"2", "3"}) {  // no shared memory at all; a rank that is alone on its node
    EXPECT_NE(soak(ranks, ranks[0] == '2' ? "mpi" : "auto").status, 0);
    std::string text;  // of all ranks: when the first rank fails, MPI's launcher may end the others before they write
    for (const char* rank : {"0", "1", "2"}) {
      text += content_of(said + "." + rank);
      unlink((said + "." + rank).c_str());
    }
    EXPECT_TRUE(contains(text, "LSCHED_ERR_UNSUPPORTED: the recorder needs shared memory")) << text;
  }
  for (const int first : {0, 2}) unlink((file.path + "." + std::to_string(first)).c_str());
  unlink((said + ".3").c_str());
}

TEST(CommandJoin, an_mpi_world_is_used_over_both_transports) {
  for (const std::string transport : {"auto", "mpi"}) {
    const outcome it = run(
        {LSCHED_TEST_MPIEXEC, "-n", "2", LSCHED_TEST_COMMAND, "soak", "--iterations", "200", "--transport", transport});
    expect_clean(it, "solo", 2);
    EXPECT_EQ(json::parse(it.out)["transport"], transport == "mpi" ? "mpi" : "shm+mpi");
  }
}

#else

TEST(CommandJoin, ranks_of_mpi_are_refused_by_a_build_without_it) {
  const outcome it = run(lsched({"soak", "--iterations", "1"}), {{"PMI_SIZE", "2"}, {"PMI_RANK", "0"}});
  EXPECT_EQ(it.status, 1);
  EXPECT_TRUE(contains(it.err, "built without MPI")) << it.err;
}

#endif

}  // namespace
