// Tests of `lsched info`: the machine, the environment, and warnings.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "bindings/c/lsched.h"
#include "build_options.h"
#include "tests/bindings/cli/command_line.h"

namespace lsched::testing {
namespace {

TEST(CommandInfo, json_tells_version_machine_and_environment) {
  const outcome it = run_well(lsched({"info", "--json", "-", "--ranks", "1000000"}), {{"LSCHED_IDLE", "yield"}});
  const json info = json::parse(it.out);
  EXPECT_EQ(info["version"], lsched_version());
  EXPECT_EQ(info["abi"], LSCHED_ABI);
  EXPECT_GE(info["cores"]["usable"], 1);
  EXPECT_LE(info["cores"]["usable"], info["cores"]["affinity"]);
  const std::string build = std::string(lsched_version()) + ", ABI " + std::to_string(LSCHED_ABI) + ", build ";
  EXPECT_EQ(info["build"]["name"].get<std::string>().find(build), 0u);
  EXPECT_TRUE(contains(run_well(lsched({"info"})).out, "build: " + info["build"]["name"].get<std::string>() + "\n"));
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

TEST(CommandInfo, shows_the_network_between_hosts) {
  const outcome it =
      run_well(lsched({"info", "--json", "-"}), {{"LSCHED_NET_INTERFACES", ""}, {"UCX_NET_DEVICES", "lo"}});
  const json network = json::parse(it.out)["network"];
  EXPECT_EQ(network["addresses"][0], "lo 127.0.0.1");
  EXPECT_EQ(network["interfaces_from"], "UCX_NET_DEVICES");
}

TEST(CommandDoctor, opens_a_world_over_the_network) {
  const auto network = [](const char* interfaces) {
    const outcome it = run(lsched({"doctor", "--json", "-"}), {{"LSCHED_NET_INTERFACES", interfaces}});
    const json all = json::parse(it.out)["checks"];
    const auto found = std::ranges::find_if(all, [](const json& one) { return one["subject"] == "network"; });
    return found == all.end() ? json() : *found;
  };
  EXPECT_EQ(network("lo")["state"], "ok");
  EXPECT_TRUE(contains(network("lo")["text"], "lo 127.0.0.1"));
  EXPECT_EQ(network("none0")["state"], "warning");
  EXPECT_TRUE(contains(network("none0")["text"],
                       "no network interface is up that fits LSCHED_NET_INTERFACES=none0. The interfaces that are up"));
}

TEST(CommandInfo, warns_of_misspelt_variables_and_values) {
  const outcome it =
      run_well(lsched({"info"}), {{"LSCHED_PROGESS", "thread"}, {"LSCHED_IDLE", "snooze"}, {"LSCHED_Q", "1"}});
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
  const outcome it = run_well(lsched({"info"}), {{"LSCHED_TUNING", table.path}, {"LSCHED_RANKS_PER_NODE", "0"}});
  EXPECT_TRUE(contains(it.err, "line 2: allreduce has no algorithm telepathy")) << it.err;
  EXPECT_TRUE(contains(it.err, "LSCHED_RANKS_PER_NODE is \"0\"")) << it.err;
  const std::string named = run(lsched({"info"}), {{"LSCHED_ALGORITHM", "allreduce=telepathy"}}).err;
  EXPECT_TRUE(contains(named, "LSCHED_ALGORITHM=allreduce=telepathy: \"allreduce\" has no algorithm")) << named;
  for (const std::string path : {"/nonexistent", LSCHED_TEST_SOURCE_DIR, "/dev/zero"}) {
    const std::string unreadable = run(lsched({"info"}), {{"LSCHED_TUNING", path}}).err;
    EXPECT_TRUE(contains(unreadable, "LSCHED_TUNING=" + path + ": the file cannot be read")) << unreadable;
  }
  const temporary_file empty("");
  EXPECT_TRUE(contains(run(lsched({"info"}), {{"LSCHED_TUNING", empty.path}}).err, "the tuning table is empty"));
  EXPECT_TRUE(contains(run(lsched({"info"}), {{"LSCHED_TRACE", "/nonexistent/x"}}).err,
                       "LSCHED_TRACE=/nonexistent/x cannot be written: /nonexistent/: "));
  EXPECT_TRUE(contains(run(lsched({"info"}), {{"LSCHED_RUN_RANK", "0"}}).err, "LSCHED_RUN_FD is not set"));
  EXPECT_TRUE(contains(run(lsched({"info"}), {{"LSCHED_RUN_FD", "x"}}).err, "LSCHED_RUN_FD is \"x\""));
}

TEST(CommandInfo, is_silent_about_a_clean_environment) {
  const outcome it = run_well(lsched({"info"}));
  EXPECT_EQ(it.err, "");
  EXPECT_TRUE(contains(it.out, "usable")) << it.out;
  const std::map<std::string, std::string> as_good_as_clean{{"LSCHED_PROGRESS", ""},   {"LSCHED_LANE", ""},
                                                            {"LSCHED_READ_PEERS", ""}, {"LSCHED_TUNING", ""},
                                                            {"LSCHED_TRACE", ""},      {"LSCHED_TEST_MODEL_SEED", "3"}};
  EXPECT_EQ(run(lsched({"info"}), as_good_as_clean).err, "");
}

}  // namespace
}  // namespace lsched::testing
