#include "bindings/cli/hosts/remote_host.h"

#include <arpa/inet.h>
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "bindings/c/lsched.h"
#include "bindings/cli/common/errors.h"
#include "bindings/cli/common/executable.h"
#include "bindings/cli/hosts/agent_order.h"
#include "bindings/environment.h"
#include "bindings/environment_names.h"

namespace lsched::cli {
namespace {

constexpr std::uint64_t k_longest_from_agent = 1 << 20;  ///< bytes in a frame

/// Returns the text if it is an address that other hosts can use. Returns "" for a text that is not an address, for a
/// loopback or wildcard address, and for an address with the name of an interface.
std::string address_for_others(const std::string& text) {
  in_addr v4{};
  in6_addr v6{};
  const bool is_v4 = inet_pton(AF_INET, text.c_str(), &v4) == 1;
  const bool is_v6 = !is_v4 && inet_pton(AF_INET6, text.c_str(), &v6) == 1;
  if (is_v6 && IN6_IS_ADDR_V4MAPPED(&v6)) return address_for_others(text.substr(text.rfind(':') + 1));
  if (is_v4) return v4.s_addr == INADDR_ANY || (ntohl(v4.s_addr) >> 24) == 127 ? "" : text;
  return is_v6 && !IN6_IS_ADDR_LOOPBACK(&v6) && !IN6_IS_ADDR_UNSPECIFIED(&v6) ? text : "";
}

/// Returns whether the text is an address of this host.
bool is_own_address(const std::string& text) {
  sockaddr_in6 v6{.sin6_family = AF_INET6};
  sockaddr_in v4{.sin_family = AF_INET};
  const bool is_v4 = inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1;
  if (!is_v4 && inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) != 1) return false;
  const int tried = socket(is_v4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto* const address = is_v4 ? reinterpret_cast<const sockaddr*>(&v4) : reinterpret_cast<const sockaddr*>(&v6);
  const bool is_own = tried >= 0 && bind(tried, address, is_v4 ? sizeof v4 : sizeof v6) == 0;
  if (tried >= 0) ::close(tried);
  return is_own;
}

/// Quotes the word for the shell of a host.
std::string quoted(const std::string& word) {
  constexpr std::string_view k_plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+./@%:=,";
  if (word.find_first_not_of(k_plain) == std::string::npos) return word;
  std::string made = "'";
  for (const char c : word) made += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return made + "'";
}

/// Waits for the end of a child. Returns false if the child still runs after the limit. SIGCHLD is blocked, so a signal
/// that arrives before sigtimedwait() ends that call at once.
bool waits_for_end(pid_t child, int& wait_status, std::chrono::nanoseconds limit) {
  using std::chrono::nanoseconds, std::chrono::seconds;
  sigset_t child_has_ended;
  sigemptyset(&child_has_ended);
  sigaddset(&child_has_ended, SIGCHLD);
  const auto deadline = remote_host::clock::now() + limit;
  while (waitpid(child, &wait_status, WNOHANG) == 0) {
    const nanoseconds left = deadline - remote_host::clock::now();
    if (left <= nanoseconds(0)) return false;
    const auto whole = std::chrono::floor<seconds>(left);
    const timespec time{whole.count(), (left - whole).count()};
    (void)sigtimedwait(&child_has_ended, nullptr, &time);
  }
  return true;
}

}  // namespace

std::string path_of_this_program() {
  std::array<char, PATH_MAX> path{};
  const ssize_t length = readlink(own_program().c_str(), path.data(), path.size() - 1);
  return length > 0 ? std::string(path.data(), static_cast<std::size_t>(length)) : own_program();
}

std::vector<std::string> remote_shell() {
  const char* const set = text_in_environment("LSCHED_RSH");
  std::istringstream text(set != nullptr ? set : std::string(k_remote_shell));
  std::vector<std::string> words;
  for (std::string word; text >> word;) words.push_back(word);
  return words;
}

void remote_host::start(const std::vector<std::string>& shell) {
  const bool is_here = is_this_host(place_.name);
  const std::string program = path_of_this_program();
  std::vector<std::string> words;
  if (!is_here) words = shell;
  if (!is_here) words.push_back(place_.name);
  // The agent must know the range before it has received the variables of the ranks.
  const char* const ports = is_here ? nullptr : text_in_environment("LSCHED_NET_PORTS");
  if (ports != nullptr) words.insert(words.end(), {"env", quoted("LSCHED_NET_PORTS=" + std::string(ports))});
  for (const std::string& each : {program, std::string("run"), std::string("--agent")})
    words.push_back(is_here ? each : quoted(each));
  command_ = is_here ? "lsched run --agent" : words.front() + " " + place_.name;
  std::array<int, 2> ends{};
  const bool has_ends = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0;
  process_ = has_ends ? fork() : -1;
  if (process_ < 0)
    throw command_failure("cannot start `" + command_ + "`: " + std::strerror(errno) + " (see `ulimit -n`, -u)");
  if (process_ == 0) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    // A signal to the whole process group must not end the shell, because this command passes the signal on to the
    // ranks.
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) signal(number, SIG_IGN);
    signal(SIGTTIN, SIG_DFL);
    unsetenv("SSH_CONNECTION");  // describes the user's own login; sshd sets the variable again for the agent
    dup2(ends[1], STDIN_FILENO);
    dup2(ends[1], STDOUT_FILENO);
    std::vector<char*> arguments;
    for (const std::string& each : words) arguments.push_back(const_cast<char*>(each.c_str()));
    arguments.push_back(nullptr);
    execvp(arguments.front(), arguments.data());
    std::fprintf(stderr, "lsched: cannot execute %s: %s\n", words.front().c_str(), std::strerror(errno));
    _exit(k_exit_not_executable);
  }
  ::close(ends[1]);
  stream_ = std::make_unique<frame_stream>(ends[0], ends[0], k_longest_from_agent);
}

std::string remote_host::read_greeting() {
  while (!has_greeted()) {
    const auto line = stream_->take_line();
    if (!line) return "";
    const auto begin = line->rfind("lsched-agent ");  // a login script may print text without an end of line
    if (begin != 0) std::fprintf(stderr, "%s: %s\n", place_.name.c_str(), line->substr(0, begin).c_str());
    if (begin == std::string::npos) continue;
    const std::string_view greeting = std::string_view(*line).substr(begin);
    std::istringstream words(std::string(greeting.substr(std::min(greeting.size(), k_agent_greeting.size()))));
    std::string version, name, address, command_address;
    unsigned port = 0;
    words >> version >> port >> name >> command_address >> address;
    if (!greeting.starts_with(k_agent_greeting) || version != lsched_version() || name.empty())
      return "the host " + place_.name + " has another version of lsched than " + lsched_version() +
             " on this host: install the same version on all hosts";
    free_port_ = static_cast<std::uint16_t>(port);
    system_name_ = name;
    address_ = address_for_others(address);
    command_address_ = address_for_others(command_address);
    if (!is_own_address(command_address_)) command_address_.clear();  // the address of a gateway or a jump host
  }
  return "";
}

std::string remote_host::wait_for_shell(std::chrono::nanoseconds limit) {
  if (process_ <= 0) return "";
  int wait_status = 0;
  if (!waits_for_end(process_, wait_status, limit)) {
    kill(process_, SIGKILL);
    waitpid(process_, &wait_status, 0);
  }
  process_ = 0;
  const bool is_signal = WIFSIGNALED(wait_status);
  const int number = is_signal ? WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
  has_shell_failed_ = !is_signal && number == 255 && !is_this_host(place_.name);
  return "`" + command_ + "` " + (is_signal ? "was ended by signal " : "has ended with status ") +
         std::to_string(number);
}

}  // namespace lsched::cli
