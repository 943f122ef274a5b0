// Tests of `lsched soak`: activation policies, stopped and killed ranks, and the worlds that the command joins.
#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>

#include "build_options.h"
#include "tests/bindings/cli/command_line.h"
#include "tests/support/wait_until.h"

namespace lsched::testing {
namespace {

/// Checks the output of a soak of `ranks` ranks without violations. The output must be a single line.
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

TEST(CommandSoak, names_itself_when_a_rank_fails) {
  const outcome it = run(lsched({"soak", "-n", "2", "--iterations", "50", "--json", "/no_such_folder/x"}));
  EXPECT_NE(it.status, 0);
  EXPECT_TRUE(contains(it.err, "\nlsched soak: rank ")) << it.err;
}

class CommandStress : public ::testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(CommandStress, violates_nothing) {
  const auto [policy, ranks] = GetParam();
  expect_clean(run(lsched({"soak", "--activation", policy, "--ranks", std::to_string(ranks), "--iterations", "200",
                           "--delay-us", "100", "--seed", "7"})),
               policy, ranks);
}

INSTANTIATE_TEST_SUITE_P(policies, CommandStress,
                         ::testing::Combine(::testing::Values("solo", "majority", "full"), ::testing::Values(1, 2, 3)),
                         [](const auto& it) {
                           return std::string(std::get<0>(it.param)) + std::to_string(std::get<1>(it.param));
                         });

TEST(CommandStress, quorums_and_bounds_hold_while_ranks_leave_one_after_the_other) {
  for (const char* policy : {"quorum(2)", "quorum(2)+grace(300)+every(5)", "quorum(1)+grace(100)", "all_of(2)+every(3)",
                             "first_of(2)", "solo+every(2)", "full"}) {
    const outcome it = run_well(lsched({"soak", "--activation", policy, "--ranks", "3", "--iterations", "200",
                                        "--delay-us", "100", "--seed", "9", "--leave-early"}));
    EXPECT_EQ(json::parse(it.out)["violations"], 0) << policy;
  }
}

TEST(CommandStress, ranks_that_are_stopped_now_and_then_violate_nothing) {
  for (const char* policy : {"solo", "quorum(2)", "quorum(2)+grace(300)", "full"}) {
    const outcome it = run(lsched({"soak", "--activation", policy, "--ranks", "3", "--iterations", "200", "--delay-us",
                                   "200", "--seed", "7", "--stops", "5"}));
    expect_clean(it, policy, 3);
    EXPECT_GT(json::parse(it.out)["stops"], 0) << policy;
  }
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
  ASSERT_EQ(all.size(), 1u + 3 * 3);  // the launcher, and for each of three ranks a rank, a stopper and a guard
  pid_t stopped = 0;
  ASSERT_TRUE(wait_until([&] {
    for (const pid_t each : all)
      if (state_of(each) == 'T') stopped = each;
    return stopped != 0;
  }));
  kill(stopped, SIGKILL);
  EXPECT_EQ(it.finish(), 128 + SIGKILL) << it.err();
  EXPECT_TRUE(wait_until([&] { return processes_with(seed).empty(); }));
}

TEST(CommandJoin, a_world_of_the_launcher_is_used) {
  const words soak{LSCHED_TEST_COMMAND, "soak", "--iterations", "200", "--delay", "busy"};
  words command = lsched({"run", "-n", "2"});
  command.insert(command.end(), soak.begin(), soak.end());
  expect_clean(run(command), "solo", 2);

  command.insert(command.end(), {"--ranks", "3"});
  const outcome other = run(command);
  EXPECT_EQ(other.status, 1);
  EXPECT_TRUE(contains(other.err, "--ranks is 3, but the launcher started 2")) << other.err;
}

TEST(CommandJoin, json_goes_to_the_file_that_was_named) {
  const std::string path = ::testing::TempDir() + "lsched-soak-" + std::to_string(getpid()) + ".json";
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
  const outcome no_hosts = run(lsched({"soak", "--iterations", "1", "--transport", "net"}));
  EXPECT_EQ(no_hosts.status, 1);
  EXPECT_TRUE(contains(no_hosts.err, "lsched run --hosts")) << no_hosts.err;
}

#if LSCHED_HAVE_MPI
TEST(CommandJoin, a_launcher_of_another_mpi_is_named_instead_of_running_singletons) {
  const outcome it =
      run(lsched({"soak", "--iterations", "1"}), {{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "0"}});
  EXPECT_EQ(it.status, 1);
  EXPECT_TRUE(contains(it.err, "one of 2 processes started by an MPI launcher (OMPI_COMM_WORLD_SIZE, set by Open MPI)"))
      << it.err;
  EXPECT_TRUE(contains(it.err, "but MPI_COMM_WORLD of ")) << it.err;
}

TEST(CommandJoin, an_mpi_world_is_used_over_both_transports) {
  const std::array<std::string, 3> launches[] = {{"auto", "2", "shm+mpi"}, {"auto", "1", "mpi"}, {"mpi", "2", "mpi"}};
  for (const auto& [requested, ranks_per_node, expected] : launches) {
    const outcome it = run(
        {LSCHED_TEST_MPIEXEC, "-n", "2", LSCHED_TEST_COMMAND, "soak", "--iterations", "200", "--transport", requested},
        {{"LSCHED_RANKS_PER_NODE", ranks_per_node}});
    expect_clean(it, "solo", 2);
    EXPECT_EQ(json::parse(it.out)["transport"], expected) << requested;
  }
}

TEST(CommandJoin, ranks_of_mpi_connect_by_tcp_and_ranks_of_one_host_by_memory) {
  for (const auto& [ranks_per_node, expected] :
       {std::pair("1", "net"), std::pair("2", "shm+net"), std::pair("3", "shm")}) {
    const outcome it =
        run({LSCHED_TEST_MPIEXEC, "-n", "3", LSCHED_TEST_COMMAND, "soak", "--iterations", "200", "--transport", "net"},
            {{"LSCHED_RANKS_PER_NODE", ranks_per_node}, {"LSCHED_NET_INTERFACES", "lo"}});
    expect_clean(it, "solo", 3);
    EXPECT_EQ(json::parse(it.out)["transport"], expected);
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
}  // namespace lsched::testing
