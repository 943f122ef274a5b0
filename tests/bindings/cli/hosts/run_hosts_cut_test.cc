// Tests of `lsched run --hosts` in a network partition. The test also runs a job whose command is stopped, and a job
// whose reader of the output pauses. The hosts are network name spaces, so the test is skipped unless root runs it.
#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <lsched.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "tests/bindings/cli/command_line.h"
#include "tests/support/network_hosts.h"
#include "tests/support/wait_until.h"

namespace lsched::testing {
namespace {

constexpr std::uint16_t k_port = 2000;

/// A server on a host. Like sshd, the server receives a line on each connection and executes the line as a shell
/// command.
class shell_server {
 public:
  shell_server(const network_hosts& net, int host) {
    std::array<int, 2> ready{};
    if (pipe2(ready.data(), O_CLOEXEC) != 0) return;
    process_ = fork();
    if (process_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      signal(SIGCHLD, SIG_IGN);
      const sockaddr_in any{.sin_family = AF_INET, .sin_port = htons(k_port), .sin_addr = {}, .sin_zero = {}};
      const int listener = net.enter(host) ? socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
      if (bind(listener, reinterpret_cast<const sockaddr*>(&any), sizeof any) != 0 || listen(listener, 8) != 0)
        _exit(1);
      (void)!write(ready[1], "", 1);
      for (;;) serve(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    }
    close(ready[1]);
    char byte = 0;
    is_ready_ = read(ready[0], &byte, 1) == 1;
    close(ready[0]);
  }
  ~shell_server() {
    if (process_ > 0 && kill(process_, SIGKILL) == 0) waitpid(process_, nullptr, 0);
  }
  shell_server(const shell_server&) = delete;
  shell_server& operator=(const shell_server&) = delete;

  bool is_ready() const { return is_ready_; }

 private:
  static std::string text_of(const sockaddr_in& address) {
    std::array<char, INET_ADDRSTRLEN> text{};
    inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size());
    return text.data() + std::string(" ") + std::to_string(ntohs(address.sin_port));
  }

  static void serve(int connection) {
    if (connection >= 0 && fork() == 0) {
      signal(SIGCHLD, SIG_DFL);
      prctl(PR_SET_PDEATHSIG, 0);
      std::string line;
      for (char c = 0; read(connection, &c, 1) == 1 && c != '\n';) line += c;
      sockaddr_in theirs{}, mine{};
      socklen_t bytes = sizeof theirs;
      getpeername(connection, reinterpret_cast<sockaddr*>(&theirs), &bytes);
      getsockname(connection, reinterpret_cast<sockaddr*>(&mine), &bytes);
      setenv("SSH_CONNECTION", (text_of(theirs) + " " + text_of(mine)).c_str(), 1);
      dup2(connection, STDIN_FILENO);
      dup2(connection, STDOUT_FILENO);
      execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
      _exit(1);
    }
    close(connection);
  }

  pid_t process_ = -1;
  bool is_ready_ = false;
};

/// A cluster: the command runs on host 0, and the ranks on hosts 1 and 2.
struct cluster {
  /// `head` is the first line of the remote shell's script. `line` is the line that a host executes. In `line`, $*
  /// stands for the command of the agent.
  explicit cluster(const std::string& head = "", const std::string& line = "$*")
      : client("#!/bin/bash\n" + head +
               "exec 2>/dev/null 3<>/dev/tcp/$1/2000\n"
               "shift\n"
               "echo \"" +
               line +
               "\" >&3\n"
               "setpriv --pdeathsig KILL cat <&3 & reader=$!\n"
               "setpriv --pdeathsig KILL cat <&0 >&3 & writer=$!\n"
               "wait -n\n"
               "kill $reader $writer\n") {
    chmod(client.path.c_str(), 0700);
  }

  bool exists() const { return net.exist() && first.is_ready() && second.is_ready(); }

  /// Returns the command line of a job. The shell on host 0 executes `rest` after the script of the ranks.
  words command(const std::string& script, const std::string& rest = "") const {
    return {"ip",
            "netns",
            "exec",
            net.name_of(0),
            "sh",
            "-c",
            (rest.empty() ? "exec " : "") + std::string(LSCHED_TEST_COMMAND) +
                " run --hosts 10.9.0.2:1,10.9.0.3:1 --timeout 55 sh -c '" + script + "'" + rest};
  }
  std::map<std::string, std::string> environment() const { return {{"LSCHED_RSH", client.path}}; }

  const network_hosts net{3};
  const shell_server first{net, 1}, second{net, 2};
  const temporary_file client;
};

bool becomes(std::size_t count, const std::string& word) {
  return wait_until([&] { return poll(nullptr, 0, 50), processes_with(word).size() == count; }, 30s);
}

void expect_end(program& it, const std::string& line, int times) {
  EXPECT_EQ(it.finish(), 0) << it.err();
  EXPECT_EQ(count_of(it.out(), line), times);
  EXPECT_EQ(it.err(), "");
}

const std::string k_silence = " has sent nothing for 10 s: the host or the network is gone. ";

/// Two jobs in which a host is silent before its ranks start. In the first job, the agent of host 2 never starts, and
/// the command waits. The test then cuts the network of host 1, whose agent has not received its order yet. In the
/// second job, the host "far" sends its first line and is then silent.
struct silent_starts {
  silent_starts() {
    chmod(shell.path.c_str(), 0700);
    before.emplace(all.command("echo started"), all.environment());
    after.emplace(lsched({"run", "--hosts", "near:1,far:2", "echo", "started"}),
                  std::map<std::string, std::string>{{"LSCHED_RSH", shell.path}});
  }
  ~silent_starts() {
    for (const pid_t each : processes_with(agent)) kill(each, SIGKILL);
  }

  bool exist() const { return all.exists(); }

  void cut() {
    EXPECT_TRUE(before->wait_for_error("10.9.0.2: greets\n", 1)) << before->err();
    EXPECT_TRUE(becomes(1, agent));
    all.net.cut(1);
  }

  void expect_named() {
    EXPECT_TRUE(before->wait_for_error("the host 10.9.0.2" + k_silence + "No rank was started", 1)) << before->err();
    EXPECT_EQ(before->finish(), 1) << before->err();
    EXPECT_EQ(before->out(), "");
    EXPECT_TRUE(becomes(0, agent)) << "the agent of the host that is gone still waits for its order";
    EXPECT_TRUE(after->wait_for_error("the host far" + k_silence + "Its ranks count as ended", 1)) << after->err();
    EXPECT_EQ(after->finish(), 1) << after->err();
    EXPECT_EQ(after->out(), "started\n");
  }

  const std::string agent = "75319";  ///< a word on the command line of the agent of host 1
  const cluster all{"test $1 != 10.9.0.3 || exec cat\n", "printf greets; exec $* " + agent};
  const temporary_file shell{"#!/bin/sh\nhost=$1; shift\ntest $host = far || exec \"$@\"\necho lsched-agent 4 " +
                             std::string(lsched_version()) + " 0 far\nexec cat >/dev/null\n"};
  std::optional<program> before, after;
};

// All jobs run at the same time, because a silent connection counts as ended only after 10 s. The job `silent`, in
// a network partition, has a reader that never reads its output.
TEST(run_hosts, a_silent_host_loses_its_ranks_but_a_stopped_command_does_not) {
  if (!network_hosts(1).exist()) GTEST_SKIP() << "only root can make hosts";
  const cluster all, other;
  silent_starts starts;
  ASSERT_TRUE(all.exists() && other.exists() && starts.exist());
  const std::string rank = "86420", reader = "97531";
  program stopped(other.command("echo ready; sleep 13; echo end"), other.environment());
  program paused(other.command("seq 300000", " | { sleep 12; wc -l; }"), other.environment());
  program silent(all.command("echo ready >&2; yes & exec sleep " + rank, " | exec sleep " + reader), all.environment());
  starts.cut();
  ASSERT_TRUE(stopped.wait_for_output("ready\n", 2)) << stopped.err();
  stopped.send(SIGSTOP);
  ASSERT_TRUE(silent.wait_for_error("ready\n", 2)) << silent.err();
  all.net.cut(1);
  const auto begin = clock::now();
  EXPECT_TRUE(silent.wait_for_error("the host 10.9.0.2" + k_silence, 1)) << silent.err();
  EXPECT_LT(clock::now() - begin, 20s);
  EXPECT_TRUE(becomes(1, rank)) << "the rank of the host that is gone still runs";
  expect_end(paused, "600000\n", 1);  // the reader pauses for 12 s
  starts.expect_named();
  stopped.send(SIGCONT);
  expect_end(stopped, "end\n", 2);
  for (const pid_t each : processes_with(reader)) kill(each, SIGTERM);
  EXPECT_TRUE(silent.wait_for_error("cannot write to standard output", 1)) << silent.err();
  EXPECT_NE(silent.finish(), -1);
  EXPECT_TRUE(becomes(0, rank));
}

}  // namespace
}  // namespace lsched::testing
