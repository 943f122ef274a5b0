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
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>

#include "bindings/cli/common/errors.h"
#include "bindings/cli/common/executable.h"
#include "bindings/cli/hosts/agent_order.h"
#include "bindings/cli/hosts/output_queue.h"
#include "bindings/cli/hosts/remote_host.h"
#include "bindings/environment.h"
#include "offload/open/world_exchange.h"
#include "offload/open/launch.h"
#include "ops/counted.h"
#include "ops/number_text.h"

namespace lsched::cli {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr auto k_longest_end = 10s;  ///< time for all agents to end their ranks
constexpr auto k_greeting_time = 60s;
constexpr auto k_longest_shell_end = 3s;  ///< time for all remote shells to end

/// Returns the variables that ranks on other hosts get.
std::vector<std::string> forwarded_variables() {
  std::vector<std::string> all;
  for (const char* const name :
       {"PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "UCX_NET_DEVICES", "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"})
    if (const char* const set = in_environment(name); set != nullptr) all.push_back(std::string(name) + "=" + set);
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text(*entry);
    if (text.starts_with("LSCHED_") && !text.starts_with("LSCHED_RUN_")) all.push_back(text);
  }
  return all;
}

/// Returns the words that start the remote shell. The first word is the path of its program. Throws command_failure if
/// there is no program.
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

/// Returns true if this process ignores the signal, for example under nohup.
bool ignores(int number) {
  struct sigaction set {};
  return sigaction(number, nullptr, &set) == 0 && set.sa_handler == SIG_IGN;
}

using host_connections = std::vector<std::unique_ptr<remote_host>>;

/// Returns an address or a name by which the ranks of all hosts reach the first host. A name may be an alias that only
/// the ssh of this host knows, so an address that sshd has reported is preferred.
std::string address_of_first(const host_connections& hosts) {
  const remote_host& first = *hosts.front();
  if (hosts.size() == 1) return "127.0.0.1";
  if (!first.address().empty()) return first.address();
  const std::string& name = first.place().name;
  const std::string without_user = name.substr(name.find('@') + 1);
  if (!is_this_host(without_user)) return without_user;
  const auto found = std::ranges::find_if(hosts, [](const auto& each) { return !each->command_address().empty(); });
  return found == hosts.end() ? first.system_name() : (*found)->command_address();
}

/// Sets MASTER_ADDR and MASTER_PORT of all ranks to the values of this process, or to an address and a free port of the
/// first host. Throws command_failure if the port is not a number.
void choose_master(agent_order& order, const host_connections& hosts) {
  const bool is_rank = in_environment(k_run_size) != nullptr;  // if true, the variables describe an outer world
  const char* const address = is_rank ? nullptr : text_in_environment("MASTER_ADDR");
  const char* const port = is_rank ? nullptr : text_in_environment("MASTER_PORT");
  order.master = address != nullptr ? address : address_of_first(hosts);
  order.master_port = hosts.front()->free_port();
  if (port == nullptr) return;
  const auto number = parse_number<std::uint16_t>(port);
  if (!number || *number == 0)
    throw command_failure("MASTER_PORT is \"" + std::string(port) + "\", which is not a port: set 1 to 65535");
  order.master_port = *number;
}

/// Returns the end of an error text about a silent host.
std::string silence_in_words() {
  return " has sent nothing for " + std::to_string(k_longest_silence.count()) + " s: the host or the network is gone. ";
}

class hosts_launcher {
 public:
  hosts_launcher(const std::vector<host>& hosts, const launch_request& request)
      : request_(request), exchange_(request.ranks), left_(request.ranks) {
    sigset_t waited;
    sigemptyset(&waited);
    for (const int number : {SIGINT, SIGTERM, SIGHUP})
      if (!ignores(number)) sigaddset(&waited, number);
    sigset_t blocked = waited;
    sigaddset(&blocked, SIGCHLD);  // remote_host::wait_for_shell() requires this
    signal(SIGCHLD, SIG_DFL);
    for (const int number : {SIGPIPE, SIGTTIN}) signal(number, SIG_IGN);  // writes and reads then fail instead
    sigprocmask(SIG_BLOCK, &blocked, nullptr);
    signals_ = signalfd(-1, &waited, SFD_CLOEXEC | SFD_NONBLOCK);
    for (const host& each : hosts) hosts_.push_back(std::make_unique<remote_host>(each));
  }
  ~hosts_launcher() {
    for (auto& each : hosts_) each->close();
    const auto deadline = clock::now() + k_longest_shell_end;
    for (auto& each : hosts_) each->wait_for_shell(std::max(0ns, std::chrono::nanoseconds(deadline - clock::now())));
    close(signals_);
  }
  hosts_launcher(const hosts_launcher&) = delete;
  hosts_launcher& operator=(const hosts_launcher&) = delete;

  int run() {
    if (request_.limit) time_limit_ = clock::now() + *request_.limit;
    if (!start_agents()) return exit_status_;
    send_orders();
    while (is_any_open()) {
      wait_and_serve();
      check_silence();
      check_deadlines();
      if (auto answer = exchange_.take_answer()) send_to_all(frame_kind::answer, 0, *answer);
      flush_all();
    }
    print_rest();
    return exit_status_;
  }

 private:
  // --- start ---------------------------------------------------------------------------------------------------------

  /// Returns false if a signal or the time limit ends the start.
  bool start_agents() {
    const bool needs_shell =
        std::ranges::any_of(hosts_, [](const auto& each) { return !is_this_host(each->place().name); });
    const std::vector<std::string> shell = needs_shell ? find_shell() : std::vector<std::string>();
    for (auto& each : hosts_) each->start(shell);
    const auto deadline = clock::now() + k_greeting_time;
    while (const remote_host* const late = find_late()) {
      poll_streams(std::min({deadline, clock::now() + k_beat_period, time_limit_.value_or(deadline)}));
      for (std::size_t i = 0; i < hosts_.size(); ++i)
        if (waits_[i].revents != 0) greet(*hosts_[i]);
      if (const int number = take_signal(); number != 0) return exit_status_ = 128 + number, false;
      if (const remote_host* const gone = find_silent())
        throw command_failure("the host " + gone->place().name + silence_in_words() + "No rank was started");
      if (time_limit_ && clock::now() >= *time_limit_) {
        tell(limit_in_words() + " reached: the host " + late->place().name + " has not started lsched");
        return exit_status_ = k_exit_timeout, false;
      }
      if (clock::now() >= deadline)
        throw command_failure("the host " + late->place().name + " has not started lsched within " +
                              std::to_string(std::chrono::seconds(k_greeting_time).count()) + " s: try `ssh " +
                              late->place().name + " true`, which must end without a question");
    }
    return true;
  }

  const remote_host* find_late() const {
    const auto found = std::ranges::find_if(hosts_, [](const auto& each) { return !each->has_greeted(); });
    return found == hosts_.end() ? nullptr : found->get();
  }

  static void greet(remote_host& from) {
    const bool is_open = from.stream().read_some();
    if (is_open) from.restart_silence(clock::now());
    const std::string why = from.read_greeting();
    if (!why.empty()) throw command_failure(why);
    if (is_open || from.has_greeted()) return;
    const std::string name = from.place().name;
    from.close();
    const std::string end = from.wait_for_shell();
    if (from.has_shell_failed())
      throw command_failure("cannot start ranks on the host " + name + ": ssh failed, because " + end + ". Try `ssh " +
                            name + " true`, which must end without a question, or set LSCHED_RSH");
    throw command_failure("cannot start ranks on the host " + name + ": " + end +
                          ". Each host needs lsched at the same path as this host (" + path_of_this_program() +
                          "), and a remote shell without a password (`ssh " + name + " true`, or LSCHED_RSH)");
  }

  void send_orders() {
    agent_order order{.ranks_of_world = request_.ranks,
                      .start_timeout_s = request_.start_timeout_s,
                      .bind = request_.bind,
                      .prepends_rank = request_.prepends_rank,
                      .ignores_interrupts = ignores(SIGINT),
                      .ignores_hangups = ignores(SIGHUP),
                      .folder = std::filesystem::current_path(),
                      .words = request_.words,
                      .environment = forwarded_variables()};
    choose_master(order, hosts_);
    for (auto& each : hosts_) {
      order.first = each->place().first;
      order.ranks = each->place().ranks;
      order.title = request_.title + ": " + each->place().name;
      each->stream().send(frame_kind::order, 0, order.text());
    }
    flush_all();
    may_read_input_ = true;
  }

  // --- streams -------------------------------------------------------------------------------------------------------

  bool is_any_open() const {
    return std::ranges::any_of(hosts_, [](const auto& each) { return each->is_open(); });
  }

  /// Waits for the connections, signals and standard streams. In waits_, the entries of the connections come first.
  void poll_streams(std::optional<clock::time_point> deadline) {
    waits_.clear();
    for (const auto& each : hosts_) {
      const bool is_open = each->is_open();
      const bool writes = is_open && each->stream().unsent() > 0;
      waits_.push_back({is_open ? each->stream().in() : -1, static_cast<short>(POLLIN | (writes ? POLLOUT : 0)), 0});
    }
    waits_.push_back({signals_, POLLIN, 0});
    waits_.push_back({may_read_input_ ? STDIN_FILENO : -1, POLLIN, 0});
    for (const output_queue* each : {&output_, &errors_}) waits_.push_back({each->awaited(), POLLOUT, 0});
    int limit_ms = -1;
    if (deadline) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - clock::now());
      limit_ms = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 3'600'000));
    }
    if (poll(waits_.data(), waits_.size(), limit_ms) < 0)
      for (pollfd& each : waits_) each.revents = 0;
  }

  void wait_and_serve() {
    auto next = clock::now() + k_beat_period;  // for check_silence()
    for (const auto& each : {time_limit_, give_up_at_, exchange_.deadline()})
      if (each) next = std::min(next, *each);
    poll_streams(next);
    for (std::size_t i = 0; i < hosts_.size(); ++i)
      if ((waits_[i].revents & ~POLLOUT) != 0) serve(*hosts_[i]);
    if (waits_[hosts_.size()].revents != 0) pass_signal_on();
    if (waits_[hosts_.size() + 1].revents != 0) read_input();
    print_some();
  }

  void serve(remote_host& from) {
    const bool is_open = from.stream().read_some();
    if (is_open) from.restart_silence(clock::now());
    while (from.is_open()) {
      const auto next = from.stream().take();
      if (!next) break;
      if (!serve(from, *next)) return lose(from, " has sent invalid data: install the same lsched on all hosts");
    }
    if (!from.is_open()) return;
    if (from.stream().has_fault()) return lose(from, " has sent too much data at once: install the same lsched there");
    if (!is_open) lose(from, "");
  }

  /// Returns a host whose agent has sent nothing for k_longest_silence, or null. If this process or its machine was
  /// stopped, beats may not have arrived yet, so all agents get the full time again.
  remote_host* find_silent() {
    const auto now = clock::now();
    const bool was_stopped = now - last_look_ > 3 * k_beat_period;
    last_look_ = now;
    for (auto& each : hosts_)
      if (was_stopped) each->restart_silence(now);
    const auto found =
        std::ranges::find_if(hosts_, [&](const auto& each) { return each->is_open() && each->is_silent(now); });
    return found == hosts_.end() ? nullptr : found->get();
  }

  /// Closes the connections to silent hosts.
  void check_silence() {
    while (remote_host* const gone = find_silent()) lose(*gone, silence_in_words() + "Its ranks count as ended");
  }

  /// Closes a connection that has failed. The ranks of other hosts continue, because they detect the loss.
  void lose(remote_host& from, const std::string& why) {
    const std::string& name = from.place().name;
    from.close();
    const std::string end = from.wait_for_shell(why.empty() ? 3s : 0s);
    tell(why.empty() ? "the connection to the host " + name + " has ended: " + end + ". Its ranks count as ended"
                     : "the host " + name + why);
    for (std::int32_t rank = from.place().first; rank < from.place().first + from.place().ranks; ++rank)
      record_end_of(rank);
    record_failure(1, false);
  }

  /// Handles a frame, and closes the connection after the last frame. Returns false if the frame is invalid.
  bool serve(remote_host& from, const frame& next) {
    const std::int32_t place = next.number - from.place().first;
    const bool is_own_rank = next.number >= from.place().first && place < from.place().ranks;
    switch (next.kind) {
      case frame_kind::output: output_.add(number_of(from), next.bytes); return true;
      case frame_kind::error: errors_.add(number_of(from), next.bytes); return true;
      case frame_kind::beat: return true;
      case frame_kind::input_taken: may_read_input_ = true; return true;
      case frame_kind::request: return is_own_rank && exchange_.add(next.number, next.bytes);
      case frame_kind::ended: {
        const auto wait_status = parse_number<int>(next.bytes);
        if (!is_own_rank || !wait_status || exchange_.has_ended(next.number)) return false;
        record_end(next.number, *wait_status);
        return true;
      }
      case frame_kind::done:
        if (next.number < 0 || next.number > 255) return false;
        finish(from, next);
        return true;
      default: return false;
    }
  }

  /// Handles the last frame of a host. If the host could not start all of its ranks, ends the ranks of all other hosts.
  void finish(remote_host& from, const frame& last) {
    if (!last.bytes.empty()) tell("on the host " + from.place().name + ": " + last.bytes);
    if (last.number != 0) record_failure(last.number, false);
    bool has_ended_all = true;
    for (std::int32_t rank = from.place().first; rank < from.place().first + from.place().ranks; ++rank)
      has_ended_all = !record_end_of(rank) && has_ended_all;
    from.close();
    if (last.number != 0 && !has_ended_all) end_all();
  }

  std::size_t number_of(const remote_host& of) const {
    return static_cast<std::size_t>(std::ranges::find_if(hosts_, [&](const auto& each) { return each.get() == &of; }) -
                                    hosts_.begin());
  }

  /// Prints output of ranks. If this fails, ends the job.
  void print_some() {
    const auto written = [this](std::size_t host, std::size_t bytes) {
      if (remote_host& from = *hosts_[host]; from.is_open())
        from.stream().send(frame_kind::output_taken, static_cast<std::int32_t>(bytes));
    };
    (void)errors_.write_some(written);
    if (output_.write_some(written)) return;
    tell("cannot write to standard output: " + std::string(std::strerror(errno)) + ": ending all ranks");
    record_failure(1, false);
    end_all();
  }

  /// Prints the remaining output after all hosts have ended. Returns early if a signal arrives.
  void print_rest() {
    may_read_input_ = false;
    while (!output_.is_empty() || !errors_.is_empty()) {
      poll_streams(std::nullopt);
      print_some();
      if (const int number = take_signal(); number != 0) {
        exit_status_ = 128 + number;
        return;
      }
    }
  }

  void send_to_all(frame_kind kind, std::int32_t number = 0, const std::string& bytes = {}) {
    for (auto& each : hosts_)
      if (each->is_open()) each->stream().send(kind, number, bytes);
  }

  /// Ignores the results, because the next read detects a connection that has ended.
  void flush_all() {
    for (auto& each : hosts_)
      if (each->is_open()) (void)each->stream().flush();
  }

  void read_input() {
    std::array<char, 65536> piece{};
    const ssize_t got = read(STDIN_FILENO, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) return;
    may_read_input_ = false;  // false until the agent has written these bytes
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

  /// Records the end of a rank. Returns false if the end was recorded before.
  bool record_end_of(std::int32_t rank) {
    if (exchange_.has_ended(rank)) return false;
    exchange_.record_end_of(rank);
    --left_;
    return true;
  }

  void record_end(std::int32_t rank, int wait_status) {
    record_end_of(rank);
    const bool is_signal = WIFSIGNALED(wait_status);
    const int number = is_signal ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
    if (number != 0) record_failure(number, is_signal);
  }

  /// A death by a signal explains failures of other ranks, even if those failures were reported first.
  void record_failure(int number, bool is_signal) {
    const bool explains = is_signal && !has_sent_end_ && exit_status_ < 128;
    if (exit_status_ == 0 || explains) exit_status_ = number;
  }

  void end_all() {
    if (std::exchange(has_sent_end_, true)) return;
    send_to_all(frame_kind::end);
    time_limit_.reset();
    give_up_at_ = clock::now() + k_longest_end;
  }

  void check_deadlines() {
    const auto now = clock::now();
    if (time_limit_ && now >= *time_limit_) {
      tell(limit_in_words() + " reached: ending " + std::to_string(left_) + " of " + counted(request_.ranks, "rank"));
      if (exit_status_ == 0) exit_status_ = k_exit_timeout;
      end_all();
    }
    if (!give_up_at_ || now < *give_up_at_) return;
    if (!output_.is_empty() || !errors_.is_empty()) {  // a paused reader of the output delays the hosts
      give_up_at_ = now + k_longest_end;
      return;
    }
    for (auto& each : hosts_) {
      if (!each->is_open()) continue;
      tell("the host " + each->place().name + " has not confirmed the end of its ranks: look for them on that host");
      each->close();
    }
  }

  std::string limit_in_words() const {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%g s", std::chrono::duration<double>(*request_.limit).count());
    return "time limit of " + std::string(text.data());
  }

  void tell(const std::string& line) const { std::fprintf(stderr, "%s: %s\n", request_.title.c_str(), line.c_str()); }

  const launch_request& request_;
  std::vector<std::unique_ptr<remote_host>> hosts_;
  world_exchange exchange_;
  std::int32_t left_;  ///< number of ranks that have not ended
  int signals_ = -1;
  std::vector<pollfd> waits_;
  output_queue output_{STDOUT_FILENO}, errors_{STDERR_FILENO};
  clock::time_point last_look_ = clock::now();  ///< last call of find_silent()
  bool may_read_input_ = false;
  std::optional<clock::time_point> time_limit_, give_up_at_;
  bool has_sent_end_ = false;
  int exit_status_ = 0;
};

}  // namespace

int launch_on_hosts(const std::vector<host>& hosts, const launch_request& request) {
  return hosts_launcher(hosts, request).run();
}

}  // namespace lsched::cli
