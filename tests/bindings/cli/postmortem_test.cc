// Tests of `lsched postmortem`: running, killed, and finished worlds.
#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "build_options.h"
#include "libsched/transport/shm/shm_endpoint.h"
#include "tests/bindings/cli/command_line.h"
#include "tests/support/wait_until.h"

namespace lsched::testing {
namespace {

/// Runs `lsched postmortem` until its output contains the text, for at most 20 s. Returns the last output.
outcome postmortem_with(const std::string& text, const std::string& source) {
  outcome it;
  wait_until([&] {
    it = run(lsched({"postmortem", source}));
    return contains(it.out, text);
  });
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
  // Stops all ranks while a rank waits. If the ranks were not stopped, another rank, which is killed later, could first
  // notice the death of rank 1. The loop repeats the attempt, because ranks do not wait all the time.
  const json running = json::parse(run(lsched({"postmortem", "--json", "-", file.path})).out);
  std::vector<pid_t> ranks;
  for (const json& each : running["ranks"]) ranks.push_back(each["pid"].get<pid_t>());
  ASSERT_EQ(ranks.size(), 3u);
  for (const auto end = clock::now() + 20s;;) {
    for (const pid_t each : ranks) kill(each, SIGSTOP);
    if (contains(run(lsched({"postmortem", file.path})).out, ", stopped): in ") || clock::now() > end) break;
    for (const pid_t each : ranks)
      if (each != victim) kill(each, SIGCONT);
    run(lsched({"postmortem", file.path}));  // lets the ranks run for a moment
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

/// The program of a rank may launch ranks itself. These inner ranks must not write to the file, which belongs to the
/// ranks of the outer launcher.
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
  EXPECT_TRUE(contains(it.out, ", runs): has entered round 17 of allreduce/ring #0\n")) << it.out;
  EXPECT_TRUE(contains(it.out, ", ended): has no schedule\n")) << it.out;
  EXPECT_TRUE(contains(it.out, "allreduce/ring #0, round 17: 1 of 3 ranks have not entered this round: rank 1\n"))
      << it.out;
  EXPECT_TRUE(contains(it.out, "allreduce/ring #0: 2 of 3 ranks do not have this schedule: ranks 1,2\n")) << it.out;
}

TEST(CommandPostmortem, of_ranks_that_ended_well_says_so) {
  const temporary_file file("");
  run_well(lsched({"soak", "--ranks", "2", "--iterations", "10"}), {{"LSCHED_RECORDER", file.path}});
  const outcome asked = run_well(lsched({"postmortem", file.path}));
  EXPECT_TRUE(contains(asked.out, ", closed its world): has no schedule\n")) << asked.out;
}

TEST(CommandPostmortem, names_the_files_of_the_nodes) {
  const temporary_file file("");
  std::vector<std::string> parts;
  for (const char* rank : {"0", "2", "10", "3", "4"}) std::ofstream(parts.emplace_back(file.path + "." + rank));
  std::ofstream(parts.emplace_back(file.path + ".err"));
  unlink(file.path.c_str());
  const outcome it = run(lsched({"postmortem", file.path}));
  for (const std::string& each : parts) unlink(each.c_str());
  EXPECT_EQ(it.status, 1);
  EXPECT_EQ(it.err, "lsched: LSCHED_ERR_ARGUMENT: " + file.path +
                        ": no such file. Each node has its own file, so name one of " + file.path + ".0, " + file.path +
                        ".2, " + file.path + ".3, " + file.path + ".4, ...\n");
}

TEST(CommandPostmortem, names_what_it_cannot_read) {
  const temporary_file file("no recording");
  const std::vector<std::pair<std::string, std::string>> mistakes{
      {file.path, "this is not a recording of this version"},
      {"/nowhere/at/all", "/nowhere/at/all: no such file"},
      {"1", "process 1"},
      {std::to_string(getpid()),
       "has created no world: give the process number of `lsched run -n`. Under `lsched run "
       "--hosts` and MPI, give the process number of the first rank on this host"},
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

#if LSCHED_HAVE_MPI
TEST(CommandPostmortem, of_an_mpi_world_has_a_file_for_each_node_and_is_refused_without_shared_memory) {
  const temporary_file file("");
  // The standard error of rank R goes to the file said.R, because MPI's launcher may lose output of ranks that end
  // soon.
  const std::string said = file.path + ".err";
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
  for (const char* ranks : {"2", "3"}) {  // 2 ranks over MPI only; 3 ranks, of which rank 2 is alone on its node
    EXPECT_NE(soak(ranks, ranks[0] == '2' ? "mpi" : "auto").status, 0);
    std::string text;  // texts of all ranks: MPI's launcher may kill a rank before the rank writes its text
    for (const char* rank : {"0", "1", "2"}) {
      text += content_of(said + "." + rank);
      unlink((said + "." + rank).c_str());
    }
    EXPECT_TRUE(contains(text, "LSCHED_ERR_UNSUPPORTED: LSCHED_RECORDER needs shared memory")) << text;
  }
  for (const int first : {0, 2}) unlink((file.path + "." + std::to_string(first)).c_str());
  unlink((said + ".3").c_str());
}
#endif

}  // namespace
}  // namespace lsched::testing
