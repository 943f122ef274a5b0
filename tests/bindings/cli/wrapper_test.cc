// Tests of `lsched run` with scripts between the launcher and the ranks: no process outlives the launcher.
#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/bindings/cli/command_line.h"
#include "tests/support/shared_memory_names.h"
#include "tests/support/wait_until.h"

namespace lsched::testing {
namespace {

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

  /// Returns the script with two words replaced. PROGRAM becomes the command line of a rank that sleeps most of the
  /// time. SLEEP becomes the command line of a program that is not a rank.
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
    return wait_until([&] { return ranks == joined(); });
  }

  /// Returns true if all programs end within 20 s.
  bool are_gone() const {
    return wait_until([&] { return alive().empty(); });
  }

 private:
  std::string mark_;
};

/// Each script starts the program of a rank in another way. The first script starts the program in the background, so
/// that a SIGTERM to the script does not reach the program. The second script starts the program in the foreground. The
/// third script starts the program as a grandchild in a separate session. The fourth script starts a daemon, that is, a
/// process whose parent has ended.
class CommandWrapper : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(scripts, CommandWrapper,
                         ::testing::Values("PROGRAM & wait", "PROGRAM; true", "setsid sh -c 'PROGRAM; true' & wait",
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

/// Starts `worlds` worlds one after the other. Kills all processes of a world, only the launcher, or one rank. In every
/// second world, the kill follows after all ranks have joined. In the other worlds, ranks may still be starting.
void kill_worlds(int worlds, unsigned seed) {
  const shared_memory_names names;
  const std::int64_t before_kb = shared_memory_kb();
  std::mt19937 draw(seed);
  for (int i = 0; i < worlds; ++i) {
    const endless_programs programs;
    const int number = static_cast<int>(2 + draw() % 4);
    program it(shell_ranks({"-n", std::to_string(number)}, programs.fill_in("exec PROGRAM")));
    const bool have_joined = i % 2 != 0 || programs.have_joined(number);
    ASSERT_TRUE(have_joined) << it.err();
    usleep(static_cast<useconds_t>(draw() % 120'000));
    const std::vector<pid_t> ranks = programs.alive();
    const auto how = draw() % 3;
    if (how < 2 || ranks.empty()) it.send(SIGKILL);
    if (how == 0)
      for (const pid_t each : ranks) kill(each, SIGKILL);
    if (how == 2 && !ranks.empty()) kill(ranks[draw() % ranks.size()], SIGKILL);
    EXPECT_GT(it.finish(), 0) << "world " << i;
    ASSERT_TRUE(programs.are_gone()) << "world " << i;
  }
  EXPECT_EQ(names.left_behind(), "");
  EXPECT_LT(shared_memory_kb() - before_kb, std::int64_t{64} << 10);
}

TEST(CommandWrapper, killed_worlds_leave_nothing_behind) { kill_worlds(12, 5); }

class CommandWrapperSoak : public ::testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(seeds, CommandWrapperSoak, ::testing::Range(0u, 4u));
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

/// The parent of the script's grandchild ends, so the launcher becomes the grandchild's parent. While the launcher
/// waits for ranks, the script checks whether the grandchild still exists.
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
  run_well(
      {"/bin/sh", "-c", programs.fill_in("SLEEP >/dev/null 2>&1 & exec ") + LSCHED_TEST_COMMAND + " run -n 2 true"});
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

}  // namespace
}  // namespace lsched::testing
