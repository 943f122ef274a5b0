#include "bindings/cli/hosts/hosts_launcher.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <utility>

#include "bindings/cli/common/errors.h"
#include "bindings/cli/common/executable.h"
#include "bindings/cli/hosts/agent_order.h"
#include "bindings/cli/hosts/remote_host.h"
#include "bindings/cli/hosts/world_exchange.h"
#include "bindings/environment.h"
#include "ops/counted.h"
#include "ops/number_text.h"

namespace lsched::cli {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr auto k_grace = 1s;         ///< time for other ranks to end after a rank has failed
constexpr auto k_longest_end = 10s;  ///< time for all agents to end their ranks
constexpr auto k_greeting_time = 60s;

/// Returns the variables that ranks on other hosts get.
std::vector<std::string> forwarded_variables() {
  std::vector<std::string> all;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text(*entry);
    if (text.starts_with("LSCHED_") && !text.starts_with("LSCHED_RUN_")) all.push_back(text);
  }
  return all;
}

/// Returns the words of the remote shell, with the path of its program. Throws command_failure if there is no program.
std::vector<std::string> find_shell() {
  std::vector<std::string> words = remote_shell();
  std::string path;
  if (words.empty() || find_executable(words.front(), path) != 0)
    throw command_failure(
        "cannot run \"" + (words.empty() ? "" : words.front()) +
        "\", which starts programs on other hosts: install ssh, or set LSCHED_RSH to another program");
  words.front() = path;
  return words;
}

class hosts_launcher {
 public:
  hosts_launcher(const std::vector<host>& hosts, const launch_request& request)
      : request_(request), exchange_(request.ranks), left_(request.ranks) {
    sigset_t waited;
    sigemptyset(&waited);
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&waited, number);
    signal(SIGCHLD, SIG_DFL);
    for (const int number : {SIGPIPE, SIGTTIN}) signal(number, SIG_IGN);  // writes and reads then fail instead
    sigprocmask(SIG_BLOCK, &waited, nullptr);
    signals_ = signalfd(-1, &waited, SFD_CLOEXEC | SFD_NONBLOCK);
    for (const host& each : hosts) hosts_.push_back(std::make_unique<remote_host>(each));
  }
  ~hosts_launcher() {
    for (auto& each : hosts_) each->close();
    for (auto& each : hosts_) each->wait_for_shell();
    close(signals_);
  }
  hosts_launcher(const hosts_launcher&) = delete;
  hosts_launcher& operator=(const hosts_launcher&) = delete;

  int run() {
    start_agents();
    send_orders();
    if (request_.limit) time_limit_ = clock::now() + *request_.limit;
    while (is_any_open()) {
      wait_and_serve();
      check_deadlines();
      if (auto answer = exchange_.take_answer()) send_to_all(frame_kind::answer, 0, *answer);
      flush_all();
    }
    return exit_status_;
  }

 private:
  // --- start ---------------------------------------------------------------------------------------------------------

  void start_agents() {
    const bool needs_shell =
        std::ranges::any_of(hosts_, [](const auto& each) { return !is_this_host(each->place().name); });
    const std::vector<std::string> shell = needs_shell ? find_shell() : std::vector<std::string>();
    for (auto& each : hosts_) each->start(shell);
    const auto deadline = clock::now() + k_greeting_time;
    while (remote_host* const silent = find_silent()) {
      poll_streams(deadline);
      for (std::size_t i = 0; i < hosts_.size(); ++i)
        if (waits_[i].revents != 0) greet(*hosts_[i]);
      if (const int number = take_signal(); number != 0) _exit(128 + number);  // the agents end with this process
      if (clock::now() >= deadline)
        throw command_failure("the host " + silent->place().name + " has not started lsched within " +
                              std::to_string(std::chrono::seconds(k_greeting_time).count()) + " s");
    }
  }

  remote_host* find_silent() const {
    const auto found = std::ranges::find_if(hosts_, [](const auto& each) { return !each->has_greeted(); });
    return found == hosts_.end() ? nullptr : found->get();
  }

  static void greet(remote_host& from) {
    const bool is_open = from.stream().read_some();
    const std::string why = from.read_greeting();
    if (!why.empty()) throw command_failure(why);
    if (is_open || from.has_greeted()) return;
    const std::string name = from.place().name;
    from.close();
    throw command_failure("cannot start ranks on the host " + name + ": " + from.wait_for_shell() +
                          ". Each host needs lsched at the same path as this host, and a remote shell without a "
                          "password (`ssh " +
                          name + " true`, or LSCHED_RSH)");
  }

  void send_orders() {
    const remote_host& first = *hosts_.front();
    agent_order order{.ranks_of_world = request_.ranks,
                      .start_timeout_s = request_.start_timeout_s,
                      .bind = request_.bind,
                      .prepends_rank = request_.prepends_rank,
                      .master = is_this_host(first.place().name) ? first.system_name() : first.place().name,
                      .master_port = first.free_port(),
                      .folder = std::filesystem::current_path(),
                      .words = request_.words,
                      .environment = forwarded_variables()};
    if (hosts_.size() == 1) order.master = "127.0.0.1";
    for (auto& each : hosts_) {
      order.first = each->place().first;
      order.ranks = each->place().ranks;
      order.title = request_.title + ": " + each->place().name;
      each->stream().send(frame_kind::order, 0, order.text());
    }
    flush_all();
  }

  // --- streams -------------------------------------------------------------------------------------------------------

  bool is_any_open() const {
    return std::ranges::any_of(hosts_, [](const auto& each) { return each->is_open(); });
  }

  /// Waits for the connections, signals and standard input. The entries of the connections come first.
  void poll_streams(std::optional<clock::time_point> deadline) {
    waits_.clear();
    for (const auto& each : hosts_) {
      const bool is_open = each->is_open();
      const bool writes = is_open && each->stream().unsent() > 0;
      waits_.push_back({is_open ? each->stream().in() : -1, static_cast<short>(POLLIN | (writes ? POLLOUT : 0)), 0});
    }
    waits_.push_back({signals_, POLLIN, 0});
    waits_.push_back({may_read_input_ ? STDIN_FILENO : -1, POLLIN, 0});
    int limit_ms = -1;
    if (deadline) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - clock::now());
      limit_ms = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 3'600'000));
    }
    if (poll(waits_.data(), waits_.size(), limit_ms) < 0)
      for (pollfd& each : waits_) each.revents = 0;
  }

  void wait_and_serve() {
    std::optional<clock::time_point> next;
    for (const auto& each : {time_limit_, end_at_, give_up_at_, exchange_.deadline()})
      if (each && (!next || *each < *next)) next = each;
    poll_streams(next);
    for (std::size_t i = 0; i < hosts_.size(); ++i)
      if (waits_[i].revents != 0) serve(*hosts_[i]);
    if (waits_[hosts_.size()].revents != 0) pass_signal_on();
    if (waits_[hosts_.size() + 1].revents != 0) read_input();
  }

  void serve(remote_host& from) {
    const bool is_open = from.stream().read_some();
    while (const auto next = from.stream().take())
      if (serve(from, *next)) {
        from.close();
        return;
      }
    if (is_open) return;
    from.close();
    tell("the connection to the host " + from.place().name + " has ended: " + from.wait_for_shell());
    record_failure(1, false);
  }

  /// Handles a frame. Returns true if it is the last frame of the host.
  bool serve(remote_host& from, const frame& next) {
    switch (next.kind) {
      case frame_kind::output: print(stdout, next.bytes); break;
      case frame_kind::error: print(stderr, next.bytes); break;
      case frame_kind::input_taken: may_read_input_ = true; break;
      case frame_kind::request: exchange_.add(next.number, next.bytes); break;
      case frame_kind::ended: record_end(next.number, parse_number<int>(next.bytes).value_or(0)); break;
      case frame_kind::done:
        if (!next.bytes.empty()) tell("on the host " + from.place().name + ": " + next.bytes);
        if (next.number != 0) record_failure(next.number, false);
        return true;
      default: break;
    }
    return false;
  }

  static void print(std::FILE* to, const std::string& lines) {
    std::fwrite(lines.data(), 1, lines.size(), to);
    std::fflush(to);
  }

  void send_to_all(frame_kind kind, std::int32_t number = 0, const std::string& bytes = {}) {
    for (auto& each : hosts_)
      if (each->is_open()) each->stream().send(kind, number, bytes);
  }

  /// A connection that has ended is noticed by the next read.
  void flush_all() {
    for (auto& each : hosts_)
      if (each->is_open()) (void)each->stream().flush();
  }

  void read_input() {
    std::array<char, 65536> piece{};
    const ssize_t got = read(STDIN_FILENO, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) return;
    may_read_input_ = false;  // until the agent has written these bytes
    if (hosts_.front()->is_open())
      hosts_.front()->stream().send(frame_kind::input, 0,
                                    {piece.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))});
  }

  // --- ends ----------------------------------------------------------------------------------------------------------

  /// Returns the next signal that this process has received, or 0.
  int take_signal() const {
    signalfd_siginfo news{};
    return read(signals_, &news, sizeof news) == sizeof news ? static_cast<int>(news.ssi_signo) : 0;
  }

  void pass_signal_on() {
    if (const int number = take_signal(); number != 0) send_to_all(frame_kind::signal, number);
  }

  void record_end(std::int32_t rank, int wait_status) {
    --left_;
    exchange_.record_end_of(rank);
    const bool is_signal = WIFSIGNALED(wait_status);
    const int number = is_signal ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
    if (number != 0) record_failure(number, is_signal);
  }

  /// A death by a signal explains failures of other ranks, even if those failures were reported first.
  void record_failure(int number, bool is_signal) {
    const bool explains = is_signal && !has_sent_end_ && exit_status_ < 128;
    if (exit_status_ == 0 || explains) exit_status_ = number;
    if (!end_at_) end_at_ = clock::now() + k_grace;
  }

  void check_deadlines() {
    const auto now = clock::now();
    if (time_limit_ && now >= *time_limit_) {
      std::array<char, 32> text{};
      std::snprintf(text.data(), text.size(), "%g s", std::chrono::duration<double>(*request_.limit).count());
      tell("time limit of " + std::string(text.data()) + " reached: ending " + std::to_string(left_) + " of " +
           counted(request_.ranks, "rank"));
      time_limit_.reset();
      if (exit_status_ == 0) exit_status_ = k_exit_timeout;
      end_at_ = now;
    }
    if (end_at_ && now >= *end_at_ && !std::exchange(has_sent_end_, true)) {
      send_to_all(frame_kind::end);
      end_at_.reset();
      time_limit_.reset();
      give_up_at_ = now + k_longest_end;
    }
    if (!give_up_at_ || now < *give_up_at_) return;
    for (auto& each : hosts_) {
      if (!each->is_open()) continue;
      tell("the host " + each->place().name + " has not confirmed the end of its ranks");
      each->close();
    }
  }

  void tell(const std::string& line) const { std::fprintf(stderr, "%s: %s\n", request_.title.c_str(), line.c_str()); }

  const launch_request& request_;
  std::vector<std::unique_ptr<remote_host>> hosts_;
  world_exchange exchange_;
  std::int32_t left_;  ///< number of ranks that have not ended
  int signals_ = -1;
  std::vector<pollfd> waits_;
  bool may_read_input_ = true;
  std::optional<clock::time_point> time_limit_, end_at_, give_up_at_;
  bool has_sent_end_ = false;
  int exit_status_ = 0;
};

}  // namespace

int launch_on_hosts(const std::vector<host>& hosts, const launch_request& request) {
  return hosts_launcher(hosts, request).run();
}

}  // namespace lsched::cli
