// Tests of `lsched run` under unusual conditions: closed standard streams, low resource limits, ranks that open their
// world late, programs between the launcher and the ranks, and programs that ranks start.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "tests/support/shell.h"

namespace {

/// The result of a command: exit status, standard output and standard error, unless closed.
struct ended : lsched::testing::shell_result {
  std::size_t count(const std::string& words) const {
    std::size_t found = 0;
    for (std::size_t at = output.find(words); at != std::string::npos; at = output.find(words, at + 1)) ++found;
    return found;
  }
};

/// Runs a shell command, in which $LSCHED is the command `lsched` and $RANK is the program of a rank.
ended shell(const std::string& words) {
  return {lsched::testing::run_shell("LSCHED=" LSCHED_TEST_COMMAND " RANK=" LSCHED_TEST_STARTER_RANK "; exec 2>&1; " +
                                     words)};
}

TEST(run, works_where_standard_streams_are_closed) {
  for (const std::string streams : {"<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"}) {
    const ended what = shell("$LSCHED run -n 3 --timeout 50 $RANK plain " + streams);
    EXPECT_EQ(what.status, 0) << streams << ": " << what.output;
  }
}

TEST(run, works_where_a_rank_has_closed_its_standard_streams) {
  const ended what = shell("$LSCHED run -n 3 --timeout 50 sh -c 'exec $0 plain <&- >&- 2>&-' $RANK");
  EXPECT_EQ(what.status, 0) << what.output;
}

/// Writes an executable file with this text, and runs the file on three ranks.
ended run_script(const std::string& text) {
  return shell("file=$(mktemp); printf '" + text +
               "' >$file; chmod +x $file; $LSCHED run -n 3 $file; status=$?; rm $file; exit $status");
}

TEST(run, refuses_a_script_without_an_interpreter_with_the_status_of_a_shell) {
  const ended without = run_script("echo hello\\n");
  EXPECT_EQ(without.status, 126) << without.output;
  EXPECT_EQ(without.count("the first line of a script is #! and the path of an interpreter\n"), 1u) << without.output;
  const ended unknown = run_script("#!/no/such/interpreter\\n");
  EXPECT_EQ(unknown.status, 127) << unknown.output;
  EXPECT_EQ(unknown.count("the interpreter in its first line does not exist\n"), 1u) << unknown.output;
  const ended proper = run_script("#!/bin/sh\\nexit 5\\n");
  EXPECT_EQ(proper.status, 5) << proper.output;
}

// Hides /proc from the ranks. UCX, a library of MPI, prints an error in this case, which the test suppresses.
TEST(run, works_where_proc_is_hidden) {
  const std::string hide = "export UCX_LOG_LEVEL=fatal; unshare -rm sh -c 'mount -t tmpfs none /proc && ";
  if (shell(hide + "true'").status != 0) GTEST_SKIP() << "this user may not mount a file system";
  for (const std::string command :
       {"$LSCHED run -n 3 --timeout 50 $RANK plain", "$LSCHED soak -n 3 --iterations 100"}) {
    const ended what = shell("export LSCHED RANK; " + hide + command + "'");
    EXPECT_EQ(what.status, 0) << what.output;
    EXPECT_EQ(what.count("ERROR") + what.count("lsched: "), 0u) << what.output;
  }
}

TEST(run, names_the_limit_that_is_too_low) {
  const ended what = shell("ulimit -n 8; $LSCHED run -n 1 $RANK plain");
  EXPECT_NE(what.status, 0);
  EXPECT_EQ(what.count("ulimit -n"), 1u) << what.output;
  EXPECT_EQ(what.count("Invalid argument"), 0u) << what.output;
}

TEST(run, advises_a_smaller_region_than_the_one_for_which_there_is_no_address_space) {
  const ended what = shell("ulimit -v 100000; LSCHED_REGION=32M $LSCHED run -n 3 $RANK plain");
  EXPECT_NE(what.status, 0);
  EXPECT_EQ(what.count("3 regions of 32 MiB"), 1u) << what.output;
  EXPECT_EQ(what.count("LSCHED_REGION=8M"), 1u) << what.output;
}

// --- ranks that come late --------------------------------------------------------------------------------------------

/// Returns a shell command that runs three ranks, of which rank 1 opens its world after `seconds` seconds.
std::string late(const std::string& options, const std::string& seconds) {
  return "$LSCHED run -n 3 --timeout 50 " + options + " sh -c 'test $LSCHED_RUN_RANK != 1 || sleep " + seconds +
         "; exec $0 plain' $RANK";
}

TEST(run, waits_for_a_late_rank_as_long_as_start_timeout_says) {
  const ended what = shell(late("--start-timeout 1", "3"));
  EXPECT_NE(what.status, 0);
  EXPECT_GE(what.count("LSCHED_ERR_TIMEOUT: rank 1 did not open its world in time"), 1u) << what.output;
  const ended in_time = shell(late("--start-timeout 30", "1"));
  EXPECT_EQ(in_time.status, 0) << in_time.output;
}

TEST(run, takes_the_start_timeout_from_the_environment_and_refuses_nonsense) {
  const ended what = shell("export LSCHED_START_TIMEOUT=1; " + late("", "3"));
  EXPECT_GE(what.count("LSCHED_ERR_TIMEOUT: rank 1 did not open its world in time"), 1u) << what.output;
  const ended nonsense = shell("LSCHED_START_TIMEOUT=soon $RANK plain");
  EXPECT_EQ(nonsense.count("LSCHED_START_TIMEOUT is \"soon\""), 1u) << nonsense.output;
  EXPECT_EQ(shell("$LSCHED run -n 1 --start-timeout 0 $RANK plain").status, 2);
}

TEST(run, ends_the_opening_at_once_if_a_rank_ends_before_it_opens) {
  const auto begin = std::chrono::steady_clock::now();
  const ended what =
      shell("$LSCHED run -n 3 --timeout 50 sh -c 'test $LSCHED_RUN_RANK != 1 || exit 0; exec $0 plain' $RANK");
  EXPECT_EQ(what.count("LSCHED_ERR_PEER: rank 1 ended before all ranks had opened their world"), 2u) << what.output;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

// --- programs that are ranks -----------------------------------------------------------------------------------------

TEST(run, a_program_that_a_rank_starts_is_no_rank_and_the_rank_keeps_its_place) {
  for (const std::string mode : {"before", "after", "forked"}) {
    const ended what = shell("$LSCHED run -n 3 --timeout 50 $RANK " + mode);
    EXPECT_EQ(what.status, 0) << mode << ": " << what.output;
    EXPECT_EQ(what.count("This process was started by rank "), 3u) << mode << ": " << what.output;
    EXPECT_EQ(what.count("and is not a rank; set LSCHED_WORLD=alone to open a world of its own"), 3u) << what.output;
  }
}

TEST(run, a_program_that_a_rank_starts_may_open_a_world_of_its_own) {
  const ended what = shell("$LSCHED run -n 3 --timeout 50 sh -c 'exec $0 after' $RANK");
  EXPECT_EQ(what.count("is not a rank"), 3u) << what.output;
  const ended alone = shell("$LSCHED run -n 2 --timeout 50 sh -c 'LSCHED_WORLD=alone $0 child; exec $0 plain' $RANK");
  EXPECT_EQ(alone.status, 0) << alone.output;
  EXPECT_EQ(alone.count("a world of 1"), 2u) << alone.output;
}

TEST(run, programs_between_the_launcher_and_a_rank_are_legitimate) {
  for (const std::string wrapper : {"sh -c '$0 plain; exit $?'", "sh -c 'exec $0 plain'",
                                    "env A=1 sh -c '(($0 plain))'", "setsid -w sh -c '$0 plain; exit $?'"}) {
    const ended what = shell("$LSCHED run -n 3 --timeout 50 " + wrapper + " $RANK");
    EXPECT_EQ(what.status, 0) << wrapper << ": " << what.output;
  }
}

TEST(run, a_program_between_that_closes_the_descriptor_is_told_apart) {
  const ended what =
      shell("$LSCHED run -n 2 --timeout 50 sh -c 'eval \"exec $LSCHED_RUN_FD>&-\"; exec $0 plain' $RANK");
  EXPECT_NE(what.status, 0);
  EXPECT_GE(what.count("has closed that descriptor, and must pass it on"), 1u) << what.output;
}

}  // namespace
