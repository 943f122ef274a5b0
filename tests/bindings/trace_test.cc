// Tests of traces. Real runs write traces through the C interface, and the command `lsched trace` merges the files.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "bindings/c/lsched.h"
#include "tests/support/barrier.h"
#include "tests/support/thread_ranks.h"

namespace {

using nlohmann::json;

using lsched::testing::create_barrier;
using lsched::testing::k_limit_ns;

/// A temporary folder. The destructor removes the folder.
class scratch_folder {
 public:
  scratch_folder() {
    std::string name = std::filesystem::temp_directory_path() / "lsched-trace-XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~scratch_folder() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

json read(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  return json::parse(file, nullptr, false);
}

std::multiset<std::string> arrows(const json& all, std::string_view phase) {
  std::multiset<std::string> ids;
  for (const json& it : all["traceEvents"])
    if (it["ph"] == phase) ids.insert(it["id"].get<std::string>());
  return ids;
}

/// Runs barriers on every rank. Calls `around` before and after the barriers.
void run_world(std::int32_t ranks, const std::function<void(lsched_world*, bool is_before)>& around) {
  lsched::testing::as_ranks(ranks, [&](lsched_world* mine, std::int32_t) {
    around(mine, true);
    lsched_schedule* schedule = nullptr;
    EXPECT_EQ(create_barrier(mine, &schedule, nullptr), LSCHED_OK);
    for (int round = 0; round < 4; ++round) EXPECT_EQ(lsched_run(schedule, k_limit_ns, nullptr), LSCHED_OK);
    EXPECT_EQ(lsched_schedule_destroy(schedule, k_limit_ns, nullptr), LSCHED_OK);
    around(mine, false);
  });
}

/// Checks that the traces in `parts` together have all events of four barriers.
void expect_barriers(const std::vector<json>& parts) {
  std::multiset<std::string> starts;
  std::multiset<std::string> ends;
  for (const json& part : parts) {
    starts.merge(arrows(part, "s"));
    ends.merge(arrows(part, "f"));
    std::size_t rounds = 0;
    for (const json& it : part["traceEvents"]) rounds += it["ph"] == "X" && it["cat"] == "round";
    EXPECT_EQ(rounds, 4u);
  }
  EXPECT_FALSE(starts.empty());
  EXPECT_EQ(starts, ends);
}

TEST(Trace, of_every_rank_fits_the_others) {
  const scratch_folder folder;
  const auto path = [&](std::int32_t rank) { return folder.file(std::to_string(rank) + ".json"); };
  run_world(3, [&](lsched_world* mine, bool is_before) {
    const std::string file = path(lsched_rank(mine));
    EXPECT_EQ(is_before ? lsched_trace_start(mine, 10'000) : lsched_trace_write(mine, file.c_str(), nullptr),
              LSCHED_OK);
  });
  expect_barriers({read(path(0)), read(path(1)), read(path(2))});
}

TEST(Trace, of_everything_is_written_at_close_where_the_environment_asks_for_it) {
  const scratch_folder folder;
  setenv("LSCHED_TRACE", folder.file("all").c_str(), 1);
  run_world(2, [](lsched_world*, bool) {});
  unsetenv("LSCHED_TRACE");
  expect_barriers({read(folder.file("all.0.json")), read(folder.file("all.1.json"))});
  const std::string joined = folder.file("joined.json");
  const std::string command =
      LSCHED_TEST_COMMAND " trace " + folder.file("all.0.json") + " " + folder.file("all.1.json") + " > " + joined;
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  const json all = read(joined);
  EXPECT_EQ(arrows(all, "s"), arrows(all, "f"));
  EXPECT_EQ(all["otherData"]["lost"], 0);
  EXPECT_NE(std::system((LSCHED_TEST_COMMAND " trace " + folder.file("none.json") + " 2> /dev/null").c_str()), 0);
}

TEST(Trace, of_everything_that_could_not_be_written_is_refused_when_the_runtime_opens) {
  const scratch_folder folder;
  lsched_diagnostic why{.struct_size = sizeof why};
  lsched_world* runtime = nullptr;
  setenv("LSCHED_TRACE", folder.file("no/such").c_str(), 1);
  EXPECT_EQ(lsched_world_open(nullptr, &runtime, &why), LSCHED_ERR_ARGUMENT);
  unsetenv("LSCHED_TRACE");
  EXPECT_EQ(runtime, nullptr);
  EXPECT_NE(std::string(why.text).find("no/: No such file"), std::string::npos) << why.text;
}

TEST(Trace, at_close_warns_if_the_disk_is_full) {
  const scratch_folder folder;
  for (const char* rank : {"0", "1"})
    std::filesystem::create_symlink("/dev/full", folder.file("full." + std::string(rank) + ".json"));
  setenv("LSCHED_TRACE", folder.file("full").c_str(), 1);
  ::testing::internal::CaptureStderr();
  run_world(2, [](lsched_world*, bool) {});
  const std::string printed = ::testing::internal::GetCapturedStderr();
  unsetenv("LSCHED_TRACE");
  for (const char* rank : {"0", "1"}) {
    const std::string wanted = "libsched [rank " + std::string(rank) + "] warning: the trace file " +
                               folder.file("full." + std::string(rank) + ".json") +
                               " is incomplete: No space left on device";
    EXPECT_NE(printed.find(wanted), std::string::npos) << printed;
  }
}

TEST(Trace, invalid_files_are_refused_before_anything_is_written) {
  const scratch_folder folder;
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  const std::string name = R"({"ph":"M","pid":0,"tid":0,"name":"process_name"})";
  const std::string slice = R"("ph":"X","pid":0,"tid":0,"ts":1.5,"dur":2,"name":"send")";
  struct mistake {
    std::string text, where, reason;
  };
  const std::vector<mistake> mistakes{
      {R"({"traceEvents":[],"otherData":{"lost":-3}})", "", "not a trace file"},
      {R"({"traceEvents":[],"otherData":7})", "", "not a trace file"},
      {R"({"traceEvents":7})", "", "not a trace file"},
      {R"({"traceEvents":[7]})", "line 1, column 18: ", "not an event of a trace: the value is not an object"},
      {"[]", "", "not a trace file"},
      {"", "line 1, column 1: ", "not valid JSON"},
      {"{\"traceEvents\":[\n" + name + ",\n\n]}", "line 4, column ", "not valid JSON"},
      {"{\"traceEvents\":[\n" + name + ",\n" + deep + "]}", "line 3, column ", "nested too deep"},
      {"{\"traceEvents\":[\n" + name + ",\n[" + name + "]]}", "line 3, column ",
       "not an event of a trace: the value is not an object"},
      {"{\"traceEvents\":[\n" + name + ",\n8\n,9]}", "line 3, column ",
       "not an event of a trace: the value is not an object"},
      {"{\"traceEvents\":[\n" + name + ",\n{}]}",
       "line 3, column 2: ", "not an event of a trace: \"ph\" is missing or not a word"},
      {"{\"traceEvents\":[\n{" + slice + R"(,"tid":"main"}]})", "line 2, column ",
       "\"tid\" is missing or not a whole number"},
      {"{\"traceEvents\":[\n{" + slice + R"(,"ts":"now"}]})", "line 2, column ", "\"ts\" is missing or not a number"},
      {"{\"traceEvents\":[\n{" + slice + R"(,"ts":1e300}]})", "line 2, column ", "\"ts\" is not between"},
      {"{\"traceEvents\":[\n{" + slice + R"(,"dur":-9e18}]})", "line 2, column ", "\"dur\" is not between"},
      {"{\"traceEvents\":[\n{" + slice + R"(,"dur":null}]})", "line 2, column ", "\"dur\" is missing or not a number"},
      {R"({"ph":"X","traceEvents":[{"ph":"s","pid":0,"tid":0,"ts":3}]})", "line 1, column ",
       "\"name\" is missing or not a word"}};
  for (const auto& [text, where, reason] : mistakes) {
    std::ofstream(folder.file("good")) << "{\"traceEvents\":[\n" << name << ",\n{" << slice << "}]}";
    std::ofstream(folder.file("bad")) << text;
    for (const char* output : {"", " --svg -"}) {
      const std::string command = LSCHED_TEST_COMMAND " trace " + folder.file("good") + " " + folder.file("bad") +
                                  output + " > " + folder.file("out") + " 2> " + folder.file("why");
      EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 1) << reason << ": " << text.substr(0, 80);
      EXPECT_EQ(std::filesystem::file_size(folder.file("out")), 0u) << text.substr(0, 80);
      std::stringstream printed;
      printed << std::ifstream(folder.file("why")).rdbuf();
      EXPECT_NE(printed.str().find("bad: " + where), std::string::npos) << where << reason << ": " << printed.str();
      EXPECT_NE(printed.str().find(reason), std::string::npos) << where << reason << ": " << printed.str();
    }
  }
  EXPECT_EQ(std::system((LSCHED_TEST_COMMAND " trace " + folder.file("good") + " > " + folder.file("out")).c_str()), 0);
  EXPECT_EQ(read(folder.file("out"))["traceEvents"], read(folder.file("good"))["traceEvents"]);
}

TEST(Trace, says_how_much_it_could_not_take) {
  const scratch_folder folder;
  run_world(1, [&](lsched_world* mine, bool is_before) {
    const std::string file = folder.file("a");
    EXPECT_EQ(is_before ? lsched_trace_start(mine, 3) : lsched_trace_write(mine, file.c_str(), nullptr), LSCHED_OK);
  });
  EXPECT_GT(read(folder.file("a"))["otherData"]["lost"], 0);
}

TEST(Trace, objects_to_calls_that_do_not_fit) {
  const scratch_folder folder;
  lsched_diagnostic why{.struct_size = sizeof why};
  EXPECT_EQ(lsched_trace_start(nullptr, 1), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_trace_write(nullptr, "x", nullptr), LSCHED_ERR_ARGUMENT);
  run_world(1, [&](lsched_world* mine, bool is_before) {
    if (!is_before) return;
    EXPECT_EQ(lsched_trace_start(mine, 0), LSCHED_ERR_ARGUMENT);
    EXPECT_EQ(lsched_trace_start(mine, UINT64_MAX), LSCHED_ERR_ARGUMENT);
    EXPECT_EQ(lsched_trace_write(mine, folder.file("a").c_str(), &why), LSCHED_ERR_STATE);
    EXPECT_EQ(lsched_trace_start(mine, 100), LSCHED_OK);
    EXPECT_EQ(lsched_trace_start(mine, 100), LSCHED_ERR_STATE);
    EXPECT_EQ(lsched_trace_write(mine, nullptr, nullptr), LSCHED_ERR_ARGUMENT);
    EXPECT_EQ(lsched_trace_write(mine, folder.file("no/such").c_str(), &why), LSCHED_ERR_ARGUMENT);
    EXPECT_NE(std::string(why.text).find("no/such cannot be created: No such file"), std::string::npos) << why.text;
    EXPECT_EQ(lsched_trace_write(mine, folder.file("a").c_str(), nullptr), LSCHED_OK) << "the trace must still run";
    EXPECT_EQ(lsched_trace_start(mine, 100), LSCHED_OK) << "the trace still runs, so that close ends it";
  });
}

}  // namespace
