// Tests of `lsched run --hosts`. The remote shell of the tests is a script that runs the agent on this machine. With
// LSCHED_RANKS_PER_NODE, ranks of different hosts share no memory and communicate by TCP.
#include <gtest/gtest.h>

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lsched.h>

#include <algorithm>
#include <string>

#include "tests/bindings/cli/command_line.h"
#include "tests/support/wait_until.h"

namespace lsched::testing {
namespace {

/// A remote shell. `FILE HOST WORDS…` runs a script. In the script, $host is the name of the host and "$@" are the
/// words.
struct remote_shell {
  explicit remote_shell(const std::string& script = "exec \"$@\"")
      : file("#!/bin/sh\nhost=$1; shift\n" + script + "\n") {
    chmod(file.path.c_str(), 0700);
  }
  std::map<std::string, std::string> environment(int per_node = 0) const {
    std::map<std::string, std::string> all{{"LSCHED_RSH", file.path}, {"LSCHED_NET_INTERFACES", "lo"}};
    if (per_node > 0) all["LSCHED_RANKS_PER_NODE"] = std::to_string(per_node);
    return all;
  }
  temporary_file file;
};

words on_hosts(const std::string& hosts, const words& program, const words& options = {}) {
  words command{"run", "--hosts", hosts};
  const words limit{"--timeout", "50"};
  if (std::ranges::find(options, limit.front()) == options.end())
    command.insert(command.end(), limit.begin(), limit.end());
  command.insert(command.end(), options.begin(), options.end());
  command.insert(command.end(), program.begin(), program.end());
  return lsched(std::move(command));
}

words script_on(const std::string& hosts, const std::string& script, const words& options = {}) {
  return on_hosts(hosts, {"/bin/sh", "-c", script}, options);
}

TEST(run_hosts, ranks_of_all_hosts_make_a_world) {
  const remote_shell shell;
  const std::pair<std::string, int> worlds[] = {{"a:3", 3},       {"a:2,b:1", 2},     {"a:1,b:1,c:1", 1},
                                                {"a:3,b:2", 3},   {"a,b", 1},         {"localhost:2,b:2", 2},
                                                {"localhost", 1}, {"a:2,[b::1]:2", 2}};
  for (const auto& [hosts, per_node] : worlds) {
    const outcome it = run(on_hosts(hosts, {LSCHED_TEST_STARTER_RANK, "plain"}), shell.environment(per_node));
    EXPECT_EQ(it.status, 0) << hosts << ": " << it.err;
    EXPECT_EQ(it.err, "") << hosts;
  }
}

TEST(run_hosts, a_program_that_a_rank_starts_is_no_rank) {
  const remote_shell shell;
  for (const std::string mode : {"before", "after", "forked"}) {
    const outcome it = run(on_hosts("a:2,b:1", {LSCHED_TEST_STARTER_RANK, mode}), shell.environment(2));
    EXPECT_EQ(it.status, 0) << mode << ": " << it.err;
    EXPECT_EQ(count_of(it.out, "This process was started by rank "), 3) << mode << ": " << it.out;
  }
}

TEST(run_hosts, ranks_have_their_places_the_folder_and_the_variables) {
  const remote_shell shell;
  const std::string script =
      "echo $LSCHED_RUN_RANK/$LSCHED_RUN_SIZE $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $LSCHED_TRACE $PWD "
      "\"$0\"";
  auto environment = shell.environment();
  environment["LSCHED_TRACE"] = "one two";
  words command = script_on("a:2,b:1", script);
  command.emplace_back("a 'word'");
  const outcome it = run(command, environment);
  EXPECT_EQ(it.status, 0) << it.err;
  const std::string rest = " one two " + std::filesystem::current_path().string() + " a 'word'\n";
  for (const char* place : {"0/3 0/3 0/2", "1/3 1/3 1/2", "2/3 2/3 0/1"})
    EXPECT_TRUE(contains(it.out, place + rest)) << it.out;
}

TEST(run_hosts, lines_and_standard_input_are_forwarded) {
  const remote_shell shell("echo welcome; exec \"$@\"");  // a login script of a host may print lines
  const std::string command = std::string(LSCHED_TEST_COMMAND) + " run --hosts a:1,b:2 --prepend-rank /bin/sh -c ";
  const outcome it =
      run({"/bin/sh", "-c",
           "seq 100000 | " + command + "'wc -l; echo error >&2; test $RANK != 2 || seq 30000; printf end'"},
          shell.environment());
  EXPECT_EQ(it.status, 0) << it.err;
  for (const char* line : {"0: 100000\n", "1: 0\n", "2: 0\n", "2: 30000\n", "0: end\n", "2: end\n"})
    EXPECT_TRUE(contains(it.out, line)) << line;
  EXPECT_EQ(count_of(it.out, "\n"), 30006);
  for (const char* line : {"0: error\n", "1: error\n", "2: error\n", "a: welcome\n", "b: welcome\n"})
    EXPECT_TRUE(contains(it.err, line)) << it.err;
}

// The agent reads the order and the input at the same time.
TEST(run_hosts, input_that_arrives_with_the_order_is_forwarded) {
  const remote_shell shell("(sleep 0.5; exec cat) | \"$@\" | cat");
  const std::string command = std::string(LSCHED_TEST_COMMAND) + " run --hosts a:1,b:1 --timeout 20 /bin/sh -c ";
  for (const std::string input : {"echo 42", "true"}) {
    const outcome it = run({"/bin/sh", "-c", input + " | " + command + "'test $RANK != 0 || { read x; echo got $x; }'"},
                           shell.environment());
    EXPECT_EQ(it.status, 0) << it.err;
    EXPECT_EQ(it.out, input == "true" ? "got\n" : "got 42\n");
  }
}

TEST(run_hosts, a_rank_that_does_not_read_its_input_does_not_stop_the_command) {
  const remote_shell shell;
  const std::string command = std::string(LSCHED_TEST_COMMAND) + " run --hosts a:1,b:1 --timeout 50 true";
  const outcome it = run({"/bin/sh", "-c", "yes | " + command}, shell.environment());
  EXPECT_EQ(it.status, 0) << it.err;
}

TEST(run_hosts, after_a_failed_rank_the_others_continue) {
  const remote_shell shell;
  const outcome status =
      run(script_on("a:2,b:1", "test $RANK = 2 && exit 7; sleep 1.5; echo end"), shell.environment());
  EXPECT_EQ(status.status, 7) << status.err;
  EXPECT_EQ(status.out, "end\nend\n");
  EXPECT_TRUE(contains(status.err, "lsched run: b: rank 2 (pid ")) << status.err;
  EXPECT_TRUE(contains(status.err, "exited with status 7")) << status.err;
  const outcome killed = run(script_on("a:2,b:1", "test $RANK = 1 && kill -KILL $$; exit 3"), shell.environment());
  EXPECT_EQ(killed.status, 128 + SIGKILL) << killed.err;
}

TEST(run_hosts, the_survivors_of_a_killed_rank_shrink_their_world) {
  const remote_shell shell;
  for (const std::string hosts : {"a:2,b:1", "a:1,b:2"}) {
    const outcome it = run(on_hosts(hosts, {LSCHED_TEST_STARTER_RANK, "shrink"}), shell.environment(hosts[2] - '0'));
    EXPECT_EQ(it.status, 128 + SIGKILL) << it.err;
    EXPECT_EQ(count_of(it.out, "a world of 2 continues\n"), 2) << it.out << it.err;
    EXPECT_EQ(count_of(it.out, "; the network to that host may have failed)\n"), hosts[2] == '2' ? 1 : 2) << it.out;
  }
}

TEST(run_hosts, a_reader_that_pauses_loses_no_output) {
  const remote_shell shell;
  const std::string command = std::string(LSCHED_TEST_COMMAND) + " run --hosts a:1,b:1 --timeout 50 seq 200000";
  const outcome it =
      run({"/bin/sh", "-c", "{ " + command + "; echo $? >&2; } | { sleep 4; wc -l; }"}, shell.environment());
  EXPECT_EQ(it.out, "400000\n");
  EXPECT_EQ(it.err, "0\n");
}

TEST(run_hosts, beginnings_of_lines_are_relayed) {
  const remote_shell shell;
  const auto begin = clock::now();
  program it(script_on("a:1,b:1", "printf 'one\\r'; head -c 100000 /dev/zero | tr '\\0' x; exec sleep 1000"),
             shell.environment());
  EXPECT_TRUE(it.wait_for_output("one\r", 2));
  EXPECT_TRUE(it.wait_for_output(std::string(65536, 'x'), 2));
  EXPECT_LT(clock::now() - begin, 20s) << "relayed only when the time limit had ended the ranks";
}

TEST(run_hosts, output_that_cannot_be_written_ends_the_job) {
  const remote_shell shell;
  const std::string command = std::string(LSCHED_TEST_COMMAND) + " run --hosts a:1,b:1 --timeout 50 ";
  const outcome full =
      run({"/bin/sh", "-c", command + "sh -c 'echo line; exec sleep 1000' >/dev/full"}, shell.environment());
  EXPECT_EQ(full.status, 1);
  EXPECT_TRUE(contains(full.err, "cannot write to standard output: No space left on device")) << full.err;
  const outcome closed =
      run({"/bin/sh", "-c", "{ " + command + "yes; echo $? >&2; } | head -n 1"}, shell.environment());
  EXPECT_TRUE(contains(closed.err, "Broken pipe")) << closed.err;
  EXPECT_TRUE(closed.err.ends_with("1\n")) << closed.err;
}

TEST(run_hosts, ignored_signals_stay_ignored) {
  const remote_shell shell;
  const std::string script = "kill -HUP $COMMAND; kill -INT $COMMAND; kill -HUP $$; kill -INT $$; echo alive";
  const outcome it = run({"/bin/sh", "-c",
                          "trap '' HUP INT; exec " + std::string(LSCHED_TEST_COMMAND) +
                              " run --hosts a:1,b:1 --timeout 50 env COMMAND=$$ sh -c '" + script + "'"},
                         shell.environment());
  EXPECT_EQ(it.status, 0) << it.err;
  EXPECT_EQ(it.out, "alive\nalive\n");
}

TEST(run_hosts, all_ranks_have_the_same_master) {
  const remote_shell shell;
  const words command = script_on("me@a:1,localhost:1", "echo $MASTER_ADDR:$MASTER_PORT");
  const outcome computed = run(command, shell.environment());
  const std::string line = computed.out.substr(0, computed.out.find('\n') + 1);
  EXPECT_EQ(computed.out, line + line);
  EXPECT_TRUE(line.starts_with("a:")) << line;
  auto environment = shell.environment();
  environment["LSCHED_NET_PORTS"] = "20000-20099";  // a firewall passes no other ports
  EXPECT_TRUE(run(command, environment).out.starts_with("a:200"));
  environment["MASTER_PORT"] = "1234";
  EXPECT_EQ(run(command, environment).out, "a:1234\na:1234\n");
  environment["MASTER_ADDR"] = "chosen";
  EXPECT_EQ(run(command, environment).out, "chosen:1234\nchosen:1234\n");
  environment["MASTER_PORT"] = "port";
  EXPECT_TRUE(contains(run(command, environment).err, "MASTER_PORT is \"port\", which is not a port"));
}

// A host in the list may be an alias that only the ssh configuration on the command's machine defines.
TEST(run_hosts, the_master_has_an_address_that_sshd_has_reported) {
  const auto master = [&](const std::string& hosts, const std::string& connection) {
    const remote_shell shell("export SSH_CONNECTION='" + connection + "'; exec \"$@\"");
    const outcome it = run(script_on(hosts, "echo $MASTER_ADDR"), shell.environment());
    EXPECT_EQ(it.status, 0) << it.err;
    return it.out.substr(0, it.out.find('\n'));
  };
  EXPECT_EQ(master("me@a:1,b:1", "10.0.0.1 5000 10.0.0.2 22"), "10.0.0.2");
  for (const char* const useless : {"127.0.0.1 5000 127.0.0.1 22", "fe80::1%eth0 5000 fe80::2%eth0 22",
                                    "::ffff:127.0.0.1 5000 ::ffff:127.0.0.1 22", "UNKNOWN 65535 UNKNOWN 65535"})
    EXPECT_EQ(master("me@a:1,b:1", useless), "a") << useless;
  const std::string own = master("localhost:1,b:1", "");                      // the name of this host
  EXPECT_EQ(master("localhost:1,b:1", "203.0.113.9 5000 10.0.0.2 22"), own);  // the address of a jump host
}

// When the signal arrives, the launcher on the host has not restored its signal actions yet.
TEST(run_hosts, a_signal_that_arrives_with_the_order_reaches_the_ranks) {
  const temporary_file first("");
  const remote_shell shell("(dd bs=1 count=1 of=" + first.path + " 2>/dev/null; echo ready >&2; sleep 0.3; exec cat " +
                           first.path + " -) | \"$@\" | cat");
  for (int i = 0; i < 5; ++i) {
    program it(script_on("a:1", "exec sleep 1000"), shell.environment());
    ASSERT_TRUE(it.wait_for_error("ready", 1)) << it.err();
    it.send(SIGINT);
    EXPECT_EQ(it.finish(), 128 + SIGINT) << it.err();
  }
}

TEST(run_hosts, each_node_writes_a_recording_even_with_one_rank) {
  const remote_shell shell;
  const temporary_file file("");
  auto environment = shell.environment(1);
  environment["LSCHED_RECORDER"] = file.path;
  const outcome it = run(on_hosts("a:1,b:1,c:1", {LSCHED_TEST_STARTER_RANK, "plain"}), environment);
  EXPECT_EQ(it.status, 0) << it.err;
  for (const char* rank : {"0", "1", "2"}) {
    const std::string path = file.path + "." + rank;
    const outcome shown = run(lsched({"postmortem", path}));
    unlink(path.c_str());
    EXPECT_TRUE(contains(shown.out, std::string("rank ") + rank + " (pid ")) << shown.out << shown.err;
  }
}

TEST(run_hosts, the_time_limit_ends_all_ranks) {
  const remote_shell shell;
  const outcome it = run(script_on("a:1,b:2", "exec sleep 1000", {"--timeout", "0.5"}), shell.environment());
  EXPECT_EQ(it.status, 124) << it.err;
  EXPECT_TRUE(contains(it.err, "lsched run: time limit of 0.5 s reached: ending 3 of 3 ranks\n")) << it.err;
}

TEST(run_hosts, signals_reach_all_ranks) {
  const remote_shell shell;
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    program it(script_on("a:1,b:2", "trap 'exit 9' TERM INT HUP; echo ready; while :; do sleep 0.02; done"),
               shell.environment());
    ASSERT_TRUE(it.wait_for_output("ready\n", 3)) << it.err();
    it.send(signal);
    EXPECT_EQ(it.finish(), 9) << it.err();
    EXPECT_EQ(count_of(it.err(), "exited with status 9"), 3) << it.err();
  }
}

// Batch systems and the program `timeout` send a signal to all processes of a group.
TEST(run_hosts, a_signal_to_the_process_group_reaches_the_ranks_only_once) {
  const remote_shell shell;
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    words command =
        script_on("a:1,b:2", "trap 'echo saved; exit 9' TERM INT HUP; echo ready; while :; do sleep 0.02; done");
    command.insert(command.begin(), "setsid");
    program it(command, shell.environment());
    ASSERT_TRUE(it.wait_for_output("ready\n", 3)) << it.err();
    kill(-it.process(), signal);
    EXPECT_EQ(it.finish(), 9) << it.err();
    EXPECT_EQ(count_of(it.out(), "saved\n"), 3) << it.out();
  }
}

/// Waits until no process has the word on its command line. Returns false after a time limit.
bool is_gone(const std::string& word) {
  const auto deadline = clock::now() + 20s;
  while (!processes_with(word).empty())
    if (clock::now() > deadline) return false;
  return true;
}

TEST(run_hosts, no_rank_outlives_the_command_or_an_agent) {
  const remote_shell shell;
  for (const std::string victim : {"command", "agent"}) {
    program it(script_on("a:2,b:1", "echo ready; exec sleep 98765"), shell.environment());
    ASSERT_TRUE(it.wait_for_output("ready\n", 3)) << it.err();
    if (victim == "command")
      it.send(SIGKILL);
    else
      kill(processes_with("--agent").front(), SIGKILL);
    if (victim == "agent") {
      EXPECT_TRUE(it.wait_for_error("the connection to the host ", 1)) << it.err();
      it.send(SIGTERM);
    }
    EXPECT_NE(it.finish(), 0);
    EXPECT_TRUE(is_gone("98765")) << victim;
    EXPECT_TRUE(is_gone("--agent")) << victim;
  }
}

// --- ranks that come late, or never ----------------------------------------------------------------------------------

TEST(run_hosts, a_rank_that_does_not_open_its_world_is_named_by_all) {
  const remote_shell shell;
  const std::string rank = LSCHED_TEST_STARTER_RANK " plain";
  const outcome late =
      run(script_on("a:2,b:1", "test $RANK != 2 || exec sleep 3; exec " + rank, {"--start-timeout", "1"}),
          shell.environment(2));
  EXPECT_NE(late.status, 0);
  EXPECT_EQ(count_of(late.err, "LSCHED_ERR_TIMEOUT: rank 2 did not open its world in time"), 2) << late.err;
  const auto begin = clock::now();
  const outcome ended = run(script_on("a:2,b:1", "test $RANK != 1 || exit 0; exec " + rank), shell.environment(2));
  EXPECT_EQ(count_of(ended.err, "LSCHED_ERR_PEER: rank 1 ended before all ranks had opened their world"), 2)
      << ended.err;
  EXPECT_LT(clock::now() - begin, 20s);
}

// --- errors ----------------------------------------------------------------------------------------------------------

TEST(run_hosts, a_list_with_another_form_is_refused) {
  const std::pair<const char*, const char*> all[] = {
      {"a:0", "\"a:0\" does not name a host"},     {"a:", "\"a:\" does not name a host"},
      {":2", "\":2\" does not name a host"},       {"a:2,,b:2", "\"\" does not name a host"},
      {"-x:2", "\"-x:2\" does not name a host"},   {"a:2:3", "\"a:2:3\" does not name a host"},
      {"a:2,b:1,a:1", "the host a occurs twice"},  {"a:1048577", "does not name a host"},
      {"a:1048576,b:1", "more than 1048576 ranks"}};
  for (const auto& [list, why] : all) {
    const outcome it = run(on_hosts(list, {"true"}));
    EXPECT_EQ(it.status, 2) << list;
    EXPECT_TRUE(contains(it.err, why)) << it.err;
  }
  const outcome both = run(on_hosts("a:2", {"true"}, {"-n", "2"}));
  EXPECT_EQ(both.status, 2);
  EXPECT_TRUE(contains(both.err, "lsched: -n (--ranks) excludes --hosts\n")) << both.err;
  const outcome neither = run(lsched({"run", "true"}));
  EXPECT_EQ(neither.status, 2);
  EXPECT_TRUE(contains(neither.err, "lsched: -n (--ranks) or --hosts is required\n")) << neither.err;
}

TEST(run_hosts, a_host_that_does_not_start_ends_at_the_time_limit_or_by_a_signal) {
  const remote_shell shell("test $host != b || exec sleep 98764; exec \"$@\"");
  const outcome limit = run(script_on("a:1,b:1", "echo started", {"--timeout", "0.5"}), shell.environment());
  EXPECT_EQ(limit.status, 124) << limit.err;
  EXPECT_EQ(limit.out, "");
  EXPECT_EQ(limit.err, "lsched run: time limit of 0.5 s reached: the host b has not started lsched\n");
  EXPECT_TRUE(is_gone("98764"));
  program it(script_on("a:1,b:1", "echo started"), shell.environment());
  ASSERT_TRUE(wait_until([] { return !processes_with("98764").empty(); }));
  it.send(SIGINT);
  EXPECT_EQ(it.finish(), 128 + SIGINT) << it.err();
  EXPECT_TRUE(is_gone("98764"));
}

TEST(run_hosts, a_host_without_an_agent_is_named) {
  const remote_shell unreachable("test $host != far || { echo no route >&2; exit 255; }; exec \"$@\"");
  const outcome none = run(on_hosts("near:1,far:1", {"echo", "started"}), unreachable.environment());
  EXPECT_EQ(none.status, 1);
  EXPECT_EQ(none.out, "");
  EXPECT_TRUE(contains(none.err, "no route\n")) << none.err;
  EXPECT_TRUE(contains(none.err, "cannot start ranks on the host far: ssh failed, because `")) << none.err;
  EXPECT_TRUE(contains(none.err, " far` has ended with status 255. Try `ssh far true`, which must ")) << none.err;

  const remote_shell without("test $host != far || exit 127; exec \"$@\"");
  const outcome lsched_only_here = run(on_hosts("near:1,far:1", {"echo", "started"}), without.environment());
  EXPECT_EQ(lsched_only_here.status, 1);
  EXPECT_TRUE(contains(lsched_only_here.err, "cannot start ranks on the host far: `")) << lsched_only_here.err;
  EXPECT_TRUE(
      contains(lsched_only_here.err, " far` has ended with status 127. Each host needs lsched at the same path"))
      << lsched_only_here.err;

  const remote_shell other("test $host != far || { echo lsched-agent 1 0.0.7 0 far; exec cat; }; exec \"$@\"");
  const outcome version = run(on_hosts("near:1,far:1", {"echo", "started"}), other.environment());
  EXPECT_EQ(version.status, 1);
  EXPECT_TRUE(contains(version.err, "the host far has another version of lsched than ")) << version.err;

  const outcome shell = run(on_hosts("near:1", {"true"}), {{"LSCHED_RSH", "no-such-shell -x"}});
  EXPECT_EQ(shell.status, 1);
  EXPECT_TRUE(contains(shell.err, "cannot run \"no-such-shell\"")) << shell.err;
}

TEST(run_hosts, a_greeting_may_follow_other_text) {
  const remote_shell shell("printf 'no end of line'; exec \"$@\"");
  const outcome it = run(on_hosts("a:1,b:1", {"echo", "started"}), shell.environment());
  EXPECT_EQ(it.out, "started\nstarted\n");
  EXPECT_TRUE(contains(it.err, "a: no end of line\n")) << it.err;
}

TEST(run_hosts, invalid_frames_of_a_host_close_its_connection) {
  const std::string greeting = "lsched-agent 4 " + std::string(lsched_version()) + " 0 far\\n";
  const auto word = [](const std::string& lowest) { return "\\" + lowest + "\\000\\000\\000"; };
  const std::string zero = word("000"), minus = "\\377\\377\\377\\377", length_1 = word("001") + zero;
  const std::string ended = word("011"), request = word("010"), output = word("005"), unknown = word("143");
  const std::string wrong = "has sent invalid data", long_frame = "has sent too much data";
  const std::pair<std::string, std::string> all[] = {
      {ended + zero + length_1 + "0", wrong},  // rank 0 belongs to the host "near"
      {ended + minus + length_1 + "0", wrong},
      {ended + word("001") + length_1 + "x", wrong},
      {request + word("002") + "\\004\\001\\000\\000" + zero + "%0260d", wrong},
      {request + word("001") + length_1 + "0", wrong},
      {unknown + zero + zero + zero, wrong},
      {output + zero + minus + minus, long_frame}};
  for (const auto& [bytes, why] : all) {
    const remote_shell shell("test $host != far || { printf '" + greeting + "'; head -c 1 >/dev/null; printf '" +
                             bytes + "'; exec cat >/dev/null; }; exec \"$@\"");
    const outcome it = run(on_hosts("near:1,far:1", {"echo", "started"}, {"--timeout", "5"}), shell.environment());
    EXPECT_EQ(it.status, 1) << bytes;
    EXPECT_EQ(it.out, "started\n") << bytes;
    EXPECT_TRUE(contains(it.err, "lsched run: the host far " + why)) << bytes << it.err;
  }
}

TEST(run_hosts, a_program_or_folder_that_a_host_lacks_is_named) {
  const remote_shell shell;
  const outcome missing = run(on_hosts("a:1,b:1", {"no-such-program-anywhere"}), shell.environment());
  EXPECT_EQ(missing.status, 127);
  EXPECT_TRUE(contains(missing.err, "lsched run: on the host b: cannot run \"no-such-program-anywhere\": "))
      << missing.err;
  const outcome host = run(on_hosts("a:1", {"b:1", "true"}), shell.environment());
  EXPECT_EQ(host.status, 127);
  EXPECT_TRUE(contains(host.err, "cannot run \"b:1\": no such program: separate hosts by commas, as in --hosts "))
      << host.err;
  EXPECT_EQ(run(on_hosts("a:1,b:1", {LSCHED_TEST_SOURCE_DIR "/CMakeLists.txt"}), shell.environment()).status, 126);
}

}  // namespace
}  // namespace lsched::testing
