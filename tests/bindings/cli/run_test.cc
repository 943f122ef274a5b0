// Tests of `lsched run`: the placement, exit statuses and signals of ranks, closed standard streams, and low resource
// limits. Other tests have ranks that open their world late, programs between the launcher and the ranks, and programs
// that ranks start.
#include <gtest/gtest.h>

#include <signal.h>

#include <chrono>
#include <string>

#include "tests/bindings/cli/command_line.h"

namespace lsched::testing {
namespace {

/// Runs a shell command, in which $LSCHED is the command `lsched` and $RANK is the program of a rank.
outcome with_rank(const std::string& command) {
  return shell("LSCHED=" LSCHED_TEST_COMMAND " RANK=" LSCHED_TEST_STARTER_RANK "; " + command);
}

TEST(run, works_where_standard_streams_are_closed) {
  for (const std::string streams : {"<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"}) {
    const outcome what = with_rank("$LSCHED run -n 3 --timeout 50 $RANK plain " + streams);
    EXPECT_EQ(what.status, 0) << streams << ": " << what.out;
  }
}

TEST(run, works_where_a_rank_has_closed_its_standard_streams) {
  const outcome what = with_rank("$LSCHED run -n 3 --timeout 50 sh -c 'exec $0 plain <&- >&- 2>&-' $RANK");
  EXPECT_EQ(what.status, 0) << what.out;
}

/// Writes an executable file with this text, and runs the file on three ranks.
outcome run_script(const std::string& text) {
  return with_rank("file=$(mktemp); printf '" + text +
                   "' >$file; chmod +x $file; $LSCHED run -n 3 $file; status=$?; rm $file; exit $status");
}

TEST(run, refuses_a_script_without_an_interpreter_with_the_status_of_a_shell) {
  const outcome without = run_script("echo hello\\n");
  EXPECT_EQ(without.status, 126) << without.out;
  EXPECT_EQ(count_of(without.out, "begin the first line with #! and the path of an interpreter\n"), 1) << without.out;
  const outcome unknown = run_script("#!/no/such/interpreter\\n");
  EXPECT_EQ(unknown.status, 127) << unknown.out;
  EXPECT_EQ(count_of(unknown.out,
                     "the interpreter in the first line of the script does not exist: correct the path after #!\n"),
            1)
      << unknown.out;
  const outcome proper = run_script("#!/bin/sh\\nexit 5\\n");
  EXPECT_EQ(proper.status, 5) << proper.out;
}

// Hides /proc from the ranks. In this case UCX, a library of MPI, prints an error. The test suppresses this error.
TEST(run, works_where_proc_is_hidden) {
  const std::string hide = "export UCX_LOG_LEVEL=fatal; unshare -rm sh -c 'mount -t tmpfs none /proc && ";
  if (with_rank(hide + "true'").status != 0) GTEST_SKIP() << "this user may not mount a file system";
  for (const std::string command :
       {"$LSCHED run -n 3 --timeout 50 $RANK plain", "$LSCHED soak -n 3 --iterations 100"}) {
    const outcome what = with_rank("export LSCHED RANK; " + hide + command + "'");
    EXPECT_EQ(what.status, 0) << what.out;
    EXPECT_EQ(count_of(what.out, "ERROR") + count_of(what.out, "lsched: "), 0) << what.out;
  }
}

TEST(run, names_the_limit_that_is_too_low) {
  const outcome what = with_rank("ulimit -n 8; $LSCHED run -n 1 $RANK plain");
  EXPECT_NE(what.status, 0);
  EXPECT_EQ(count_of(what.out, "ulimit -n"), 1) << what.out;
  EXPECT_EQ(count_of(what.out, "Invalid argument"), 0) << what.out;
}

TEST(run, advises_a_smaller_region_than_the_one_for_which_there_is_no_address_space) {
  const outcome what = with_rank("ulimit -v 100000; LSCHED_REGION=32M $LSCHED run -n 3 $RANK plain");
  EXPECT_NE(what.status, 0);
  EXPECT_EQ(count_of(what.out, "3 regions of 32 MiB"), 1) << what.out;
  EXPECT_EQ(count_of(what.out, "LSCHED_REGION=8M"), 1) << what.out;
}

// --- ranks that come late --------------------------------------------------------------------------------------------

/// Returns a shell command that runs three ranks. Rank 1 opens its world after `seconds` seconds.
std::string late(const std::string& options, const std::string& seconds) {
  return "$LSCHED run -n 3 --timeout 50 " + options + " sh -c 'test $LSCHED_RUN_RANK != 1 || sleep " + seconds +
         "; exec $0 plain' $RANK";
}

TEST(run, waits_for_a_late_rank_as_long_as_start_timeout_says) {
  const outcome what = with_rank(late("--start-timeout 1", "3"));
  EXPECT_NE(what.status, 0);
  EXPECT_GE(count_of(what.out, "LSCHED_ERR_TIMEOUT: rank 1 did not open its world in time"), 1) << what.out;
  const outcome in_time = with_rank(late("--start-timeout 30", "1"));
  EXPECT_EQ(in_time.status, 0) << in_time.out;
}

TEST(run, takes_the_start_timeout_from_the_environment_and_refuses_nonsense) {
  const outcome what = with_rank("export LSCHED_START_TIMEOUT=1; " + late("", "3"));
  EXPECT_GE(count_of(what.out, "LSCHED_ERR_TIMEOUT: rank 1 did not open its world in time"), 1) << what.out;
  const outcome nonsense = with_rank("LSCHED_START_TIMEOUT=soon $RANK plain");
  EXPECT_EQ(count_of(nonsense.out, "LSCHED_START_TIMEOUT is \"soon\""), 1) << nonsense.out;
  EXPECT_EQ(with_rank("$LSCHED run -n 1 --start-timeout 0 $RANK plain").status, 2);
}

TEST(run, ends_the_opening_at_once_if_a_rank_ends_before_it_opens) {
  const auto begin = std::chrono::steady_clock::now();
  const outcome what =
      with_rank("$LSCHED run -n 3 --timeout 50 sh -c 'test $LSCHED_RUN_RANK != 1 || exit 0; exec $0 plain' $RANK");
  EXPECT_EQ(count_of(what.out, "LSCHED_ERR_PEER: rank 1 ended before all ranks had opened their world"), 2) << what.out;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

// --- programs that are ranks -----------------------------------------------------------------------------------------

TEST(run, a_program_that_a_rank_starts_is_no_rank_and_the_rank_keeps_its_place) {
  for (const std::string mode : {"before", "after", "forked"}) {
    const outcome what = with_rank("$LSCHED run -n 3 --timeout 50 $RANK " + mode);
    EXPECT_EQ(what.status, 0) << mode << ": " << what.out;
    EXPECT_EQ(count_of(what.out, "This process was started by rank "), 3) << mode << ": " << what.out;
    EXPECT_EQ(count_of(what.out, "and is not a rank; set LSCHED_WORLD=alone to open a world of its own"), 3)
        << what.out;
  }
}

TEST(run, a_program_that_a_rank_starts_may_open_a_world_of_its_own) {
  const outcome what = with_rank("$LSCHED run -n 3 --timeout 50 sh -c 'exec $0 after' $RANK");
  EXPECT_EQ(count_of(what.out, "is not a rank"), 3) << what.out;
  const outcome alone =
      with_rank("$LSCHED run -n 2 --timeout 50 sh -c 'LSCHED_WORLD=alone $0 child; exec $0 plain' $RANK");
  EXPECT_EQ(alone.status, 0) << alone.out;
  EXPECT_EQ(count_of(alone.out, "a world of 1"), 2) << alone.out;
}

TEST(run, programs_between_the_launcher_and_a_rank_are_legitimate) {
  for (const std::string wrapper : {"sh -c '$0 plain; exit $?'", "sh -c 'exec $0 plain'",
                                    "env A=1 sh -c '(($0 plain))'", "setsid -w sh -c '$0 plain; exit $?'"}) {
    const outcome what = with_rank("$LSCHED run -n 3 --timeout 50 " + wrapper + " $RANK");
    EXPECT_EQ(what.status, 0) << wrapper << ": " << what.out;
  }
}

TEST(run, a_program_between_that_closes_the_descriptor_is_told_apart) {
  const outcome what =
      with_rank("$LSCHED run -n 2 --timeout 50 sh -c 'eval \"exec $LSCHED_RUN_FD>&-\"; exec $0 plain' $RANK");
  EXPECT_NE(what.status, 0);
  EXPECT_GE(count_of(what.out, "has closed that descriptor"), 1) << what.out;
}

TEST(CommandRun, gives_each_rank_its_place_and_its_own_words) {
  const outcome it = run(shell_ranks({"-n", "3"},
                                     "echo rank $LSCHED_RUN_RANK of $LSCHED_RUN_SIZE fd $LSCHED_RUN_FD; "
                                     "test -e /proc/self/fd/$LSCHED_RUN_FD"));
  EXPECT_EQ(it.status, 0) << it.err;
  for (const char* line : {"rank 0 of 3 fd ", "rank 1 of 3 fd ", "rank 2 of 3 fd "})
    EXPECT_TRUE(contains(it.out, line)) << it.out;

  // All words after the name of the program are arguments of the program, even if the words are options of the command.
  // The program may also have the name of a subcommand.
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
  const outcome long_line = run(shell_ranks({"-n", "2", "--prepend-rank"}, "head -c 50000000 /dev/zero | tr '\\0' x"));
  EXPECT_EQ(std::count(long_line.out.begin(), long_line.out.end(), 'x'), 100'000'000);
}

TEST(CommandRun, nobody_waits_for_a_rank_that_died_before_it_joined) {
  const auto begin = clock::now();
  const outcome it = run(endless_ranks("test $LSCHED_RUN_RANK != 1 || kill -KILL $$"));
  EXPECT_EQ(it.status, 128 + SIGKILL) << it.err;
  EXPECT_TRUE(contains(it.err, "lsched: LSCHED_ERR_PEER: ")) << it.err;
  EXPECT_LT(clock::now() - begin, 30s);  // the limit for opening is a minute
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
  const outcome it = run_well(lsched({"run", "-np", "3", "echo", "-np", "5"}));
  EXPECT_EQ(it.out, "-np 5\n-np 5\n-np 5\n");
}

TEST(CommandRun, programs_that_do_not_exist_are_refused_before_anything_starts) {
  const outcome missing = run(lsched({"run", "-n", "2", "no-such-program-anywhere"}));
  EXPECT_EQ(missing.status, 127);
  EXPECT_EQ(missing.err,
            "lsched: cannot run \"no-such-program-anywhere\": no such program: give a path such as ./my_program, or "
            "change PATH\n");
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
  const outcome it = run_well(shell_ranks({"-n", "3", "--pin"}, "nproc"));
  EXPECT_EQ(it.out, "1\n1\n1\n");
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

}  // namespace
}  // namespace lsched::testing
