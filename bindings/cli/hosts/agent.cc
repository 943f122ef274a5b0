#include "bindings/cli/hosts/agent.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "bindings/c/lsched.h"
#include "bindings/cli/common/errors.h"
#include "bindings/cli/common/executable.h"
#include "bindings/cli/common/launcher.h"
#include "bindings/cli/common/signal_gate.h"
#include "bindings/cli/hosts/agent_order.h"
#include "bindings/cli/hosts/frame_stream.h"
#include "bindings/cli/hosts/host_list.h"
#include "bindings/cli/hosts/shell_connection.h"
#include "bindings/net_environment.h"
#include "offload/open/launch_exchange.h"

namespace lsched::cli {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::size_t k_longest_line = 65536;               ///< a longer line is relayed in parts
constexpr std::array k_forwarded{SIGINT, SIGTERM, SIGHUP};  ///< signals that the command sends as frames
constexpr int k_beat_ms = std::chrono::milliseconds(k_beat_period).count();
constexpr std::chrono::seconds k_longest_output{2};  ///< maximum wait for the end of the outputs after the launcher has
                                                     ///< ended
/// The maximum number of bytes in a frame from the command. One frame can have the records of all ranks.
constexpr std::uint64_t k_longest_from_command = std::uint64_t{1} << 31;

/// The end of a rank. The launcher writes this struct to a pipe.
struct rank_end {
  std::int32_t rank;
  std::int32_t wait_status;
};

/// A pipe from or to the launcher. When reading, `bytes` has the beginning of a line. When writing, `bytes` has the
/// unwritten bytes.
struct relayed_stream {
  int descriptor = -1;
  std::string bytes{};

  void end() {
    if (descriptor >= 0) close(std::exchange(descriptor, -1));
  }
};

/// Sends heartbeats (frame_kind::beat) to the command, and detects that the command's host is silent.
class heartbeat {
 public:
  explicit heartbeat(frame_stream& command) : command_(command) {}

  /// Sends a heartbeat if the last heartbeat is a second old. Returns false if the connection has ended, or if the
  /// command's host is silent.
  bool beat() {
    if (clock::now() < next_) return true;
    next_ = clock::now() + k_beat_period;
    command_.send(frame_kind::beat);
    return command_.flush() && shell_.silence() <= k_longest_silence;
  }

 private:
  frame_stream& command_;
  const shell_connection shell_;
  clock::time_point next_{};
};

/// The relay between the command and the launcher.
class agent {
 public:
  agent(frame_stream& command, const agent_order& order) : command_(command), order_(order), heartbeat_(command) {}

  /// Starts the launcher. Returns false if the system has no resources for it.
  bool start(const std::string& path) {
    getrlimit(RLIMIT_NOFILE, &descriptors_);
    const rlimit most{descriptors_.rlim_max, descriptors_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &most);            // the agent has two open descriptors for each rank
    std::array<std::array<int, 2>, 4> pipes{};  // input, output, errors, ends of ranks
    for (auto& each : pipes)
      if (pipe2(each.data(), O_CLOEXEC) != 0) return false;
    std::vector<int> theirs;
    for (std::int32_t rank = 0; rank < order_.ranks; ++rank) {
      std::array<int, 2> ends{};
      if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) return false;
      exchanges_.push_back(std::make_unique<frame_stream>(ends[0], ends[0], 0));
      requests_.emplace_back();
      theirs.push_back(ends[1]);
    }
    const pid_t self = getpid();
    // This process ignores these signals, and the kernel drops an ignored signal unless the signal is blocked. So these
    // signals stay blocked in the launcher until it has restored their actions. Until then, the kernel keeps them.
    sigset_t kept, earlier;
    sigemptyset(&kept);
    for (const int number : k_forwarded) sigaddset(&kept, number);
    sigprocmask(SIG_BLOCK, &kept, &earlier);
    launcher_ = fork();
    if (launcher_ != 0) sigprocmask(SIG_SETMASK, &earlier, nullptr);
    if (launcher_ < 0) return false;
    if (launcher_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != self) _exit(1);  // the agent died before prctl
      be_launcher(path, pipes, std::move(theirs), earlier);
    }
    for (const int each : theirs) close(each);
    close(pipes[0][0]);
    for (std::size_t i = 1; i < pipes.size(); ++i) close(pipes[i][1]);
    input_.descriptor = pipes[0][1];
    output_.descriptor = pipes[1][0];
    errors_.descriptor = pipes[2][0];
    ends_.descriptor = pipes[3][0];
    fcntl(input_.descriptor, F_SETFL, O_NONBLOCK);
    return true;
  }

  /// Returns false if the connection to the command has ended.
  bool is_connected() const { return is_connected_; }

  /// Relays until the launcher has ended. Returns the exit status of the launcher.
  int relay() {
    auto last_event = clock::now();
    serve_command();  // handles frames that were read together with the order
    while (ends_.descriptor >= 0 || output_.descriptor >= 0 || errors_.descriptor >= 0) {
      list_waits();
      const int ready = poll(waits_.data(), waits_.size(), k_beat_ms);
      if (ready > 0) serve();
      const bool has_ended = ends_.descriptor < 0 && (!is_connected_ || (command_.unsent() == 0 && has_room()));
      if (ready > 0 || !has_ended) last_event = clock::now();
      if (clock::now() - last_event > k_longest_output) break;  // a process left behind may keep an output open
      if (is_connected_ && !heartbeat_.beat()) disconnect();
    }
    int wait_status = 0;
    while (waitpid(launcher_, &wait_status, 0) < 0 && errno == EINTR) continue;
    return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
  }

 private:
  [[noreturn]] void be_launcher(const std::string& path, const std::array<std::array<int, 2>, 4>& pipes,
                                std::vector<int> theirs, const sigset_t& signals) {
    setpgid(0, 0);
    setrlimit(RLIMIT_NOFILE, &descriptors_);
    for (const int number : {SIGTERM, SIGPIPE}) signal(number, SIG_DFL);
    signal(SIGINT, order_.ignores_interrupts ? SIG_IGN : SIG_DFL);
    signal(SIGHUP, order_.ignores_hangups ? SIG_IGN : SIG_DFL);
    sigprocmask(SIG_SETMASK, &signals, nullptr);
    dup2(pipes[0][0], STDIN_FILENO);
    dup2(pipes[1][1], STDOUT_FILENO);
    dup2(pipes[2][1], STDERR_FILENO);
    const int ends = pipes[3][1];
    for (std::size_t i = 0; i < 3; ++i)
      for (const int each : pipes[i]) close(each);
    close(pipes[3][0]);
    close(command_.in());  // the connection must end if the agent is killed
    close(command_.out());
    for (const auto& each : exchanges_) close(each->in());
    host_part part{.first = order_.first,
                   .ranks_of_world = order_.ranks_of_world,
                   .exchanges = std::move(theirs),
                   .master = order_.master,
                   .master_port = order_.master_port};
    part.report = [ends](std::int32_t rank, int wait_status) {
      const rank_end one{rank, wait_status};
      (void)!write(ends, &one, sizeof one);
    };
    launch_request request{.ranks = order_.ranks, .path = path, .words = order_.words, .title = order_.title};
    request.start_timeout_s = order_.start_timeout_s;
    request.bind = order_.bind;
    request.prepends_rank = order_.prepends_rank;
    request.part = std::move(part);
    int status = 1;
    try {
      status = launch(request);
    } catch (const command_failure& why) {
      std::fprintf(stderr, "%s: %s\n", order_.title.c_str(), why.what());
    }
    std::fflush(nullptr);
    _exit(status);
  }

  bool has_room() const { return !is_connected_ || untaken_ < k_most_untaken; }

  void list_waits() {
    const bool has_room = this->has_room();
    const short writing = POLLOUT;
    waits_.clear();
    waits_.push_back({is_connected_ ? command_.in() : -1, POLLIN, 0});
    waits_.push_back({is_connected_ && command_.unsent() > 0 ? command_.out() : -1, writing, 0});
    waits_.push_back({has_room ? output_.descriptor : -1, POLLIN, 0});
    waits_.push_back({has_room ? errors_.descriptor : -1, POLLIN, 0});
    waits_.push_back({ends_.descriptor, POLLIN, 0});
    waits_.push_back({input_.bytes.empty() ? -1 : input_.descriptor, writing, 0});
    for (const auto& each : exchanges_) {
      const bool is_open = each != nullptr;
      waits_.push_back(
          {is_open ? each->in() : -1, static_cast<short>(POLLIN | (is_open && each->unsent() > 0 ? writing : 0)), 0});
    }
  }

  void serve() {
    const auto is_ready = [&](std::size_t place) { return waits_[place].revents != 0; };
    if (is_ready(0)) serve_command();
    if (is_ready(2)) relay_lines(output_, frame_kind::output);
    if (is_ready(3)) relay_lines(errors_, frame_kind::error);
    if (is_ready(4)) relay_ends();
    if (is_ready(5)) write_input();
    for (std::size_t rank = 0; rank < exchanges_.size(); ++rank)
      if (is_ready(6 + rank)) serve_rank(rank);
    if (is_connected_ && !command_.flush()) disconnect();
  }

  void serve_command() {
    const bool is_open = command_.read_some();
    while (const auto next = command_.take()) {
      switch (next->kind) {
        case frame_kind::input: take_input(next->bytes); break;
        case frame_kind::signal: kill(launcher_, next->number); break;
        case frame_kind::end: kill(launcher_, k_end_ranks); break;
        case frame_kind::answer: answer_ranks(next->bytes); break;
        case frame_kind::output_taken: take_receipt(next->number); break;
        default: break;
      }
    }
    if (!is_open || command_.has_fault()) disconnect();
  }

  /// Ends all ranks, because the connection to the command is lost.
  void disconnect() {
    if (std::exchange(is_connected_, false)) kill(launcher_, k_end_ranks);
  }

  void take_receipt(std::int32_t bytes) {
    if (bytes >= 0) untaken_ -= std::min(untaken_, static_cast<std::size_t>(bytes));
  }

  void take_input(const std::string& bytes) {
    if (bytes.empty() || input_.descriptor < 0) return input_.end();
    input_.bytes = bytes;
    write_input();
  }

  void write_input() {
    const ssize_t put = write(input_.descriptor, input_.bytes.data(), input_.bytes.size());
    if (put > 0) input_.bytes.erase(0, static_cast<std::size_t>(put));
    if (put < 0 && errno != EAGAIN && errno != EINTR) {  // rank 0 reads no more input
      input_.bytes.clear();
      input_.end();
    }
    if (input_.bytes.empty()) command_.send(frame_kind::input_taken);
  }

  /// Relays complete lines. A line ends with '\n' or '\r'. Also relays an incomplete line if it is long, or if the
  /// stream has ended.
  void relay_lines(relayed_stream& from, frame_kind kind) {
    std::array<char, 65536> piece{};
    const ssize_t got = read(from.descriptor, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) return;
    const std::size_t before = from.bytes.size();
    if (got > 0) from.bytes.append(piece.data(), static_cast<std::size_t>(got));
    if (got <= 0) from.end();
    const auto last = std::string_view(from.bytes).substr(before).find_last_of("\r\n");
    const bool is_whole = got <= 0 || (last == std::string_view::npos && from.bytes.size() >= k_longest_line);
    const std::size_t end = is_whole ? from.bytes.size() : last == std::string_view::npos ? 0 : before + last + 1;
    if (end == 0) return;
    if (is_connected_) {
      command_.send(kind, 0, std::string_view(from.bytes).substr(0, end));
      untaken_ += end;
    }
    from.bytes.erase(0, end);
  }

  void relay_ends() {
    rank_end one{};
    const ssize_t got = read(ends_.descriptor, &one, sizeof one);
    if (got == sizeof one) command_.send(frame_kind::ended, one.rank, std::to_string(one.wait_status));
    if (got == 0) ends_.end();
  }

  void serve_rank(std::size_t rank) {
    std::array<char, sizeof(exchange_request)> piece{};
    std::string& request = requests_[rank];
    const ssize_t got = read(exchanges_[rank]->in(), piece.data(), piece.size() - request.size());
    const bool is_open = got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
    if (got > 0) request.append(piece.data(), static_cast<std::size_t>(got));
    if (request.size() == sizeof(exchange_request)) {
      command_.send(frame_kind::request, order_.first + static_cast<std::int32_t>(rank), request);
      request.clear();
      awaits_answer_.push_back(rank);
    }
    if (!is_open || !exchanges_[rank]->flush()) exchanges_[rank] = nullptr;
  }

  void answer_ranks(const std::string& answer) {
    for (const std::size_t rank : std::exchange(awaits_answer_, {})) {
      if (exchanges_[rank] == nullptr) continue;
      exchanges_[rank]->send(answer);
      if (!exchanges_[rank]->flush()) exchanges_[rank] = nullptr;
    }
  }

  frame_stream& command_;
  const agent_order& order_;
  heartbeat heartbeat_;
  bool is_connected_ = true;
  std::size_t untaken_ = 0;  ///< bytes of output that the command has not written yet
  pid_t launcher_ = 0;
  rlimit descriptors_{};  ///< limit on descriptors that the ranks inherit
  relayed_stream input_, output_, errors_, ends_;
  std::vector<std::unique_ptr<frame_stream>> exchanges_;  ///< socket of each rank; null: the rank has closed its end
  std::vector<std::string> requests_;                     ///< beginning of each rank's next request
  std::vector<std::size_t> awaits_answer_;                ///< ranks with a request
  std::vector<pollfd> waits_;
};

/// Waits until the command has sent the order. Returns nothing if the connection ends first, or if the command's host
/// is silent.
std::optional<agent_order> receive_order(frame_stream& command) {
  heartbeat own(command);
  while (own.beat()) {
    pollfd wait{command.in(), POLLIN, 0};
    if (poll(&wait, 1, k_beat_ms) <= 0) continue;
    const bool is_open = command.read_some();
    if (const auto first = command.take())
      return first->kind == frame_kind::order ? agent_order::read(first->bytes) : std::nullopt;
    if (!is_open || command.has_fault()) break;
  }
  return std::nullopt;
}

/// Prepares this process for its launcher, and finds the program. Returns the reason why the ranks cannot be started.
std::optional<std::string> prepare(const agent_order& order, std::string& path, int& status) {
  status = 1;
  for (const std::string& each : order.environment)
    setenv(each.substr(0, each.find('=')).c_str(), each.substr(each.find('=') + 1).c_str(), 1);
  if (chdir(order.folder.c_str()) != 0)
    return "cannot enter the working directory " + order.folder + ": " + std::strerror(errno);
  status = find_executable(order.words.front(), path);
  if (status == 0) return std::nullopt;
  const std::string& name = order.words.front();
  const bool is_host = name.find(':') != std::string::npos && name.find('/') == std::string::npos && parse_hosts(name);
  return "cannot run \"" + name + "\": " +
         (status != k_exit_not_found ? "the file is not executable: run `chmod +x` on the file"
          : is_host                  ? "no such program: separate hosts by commas, as in --hosts a:2,b:2"
                                     : "no such program: give a path that is valid on each host");
}

/// Sends the last frame. Then waits until the command closes the connection, which the command does after this frame.
/// If this process closed a socket before the command's last frame arrived, the kernel would reset the connection. The
/// command would then lose output that has not arrived yet.
void send_done(frame_stream& command, int status, const std::string& why) {
  heartbeat own(command);
  command.send(frame_kind::done, status, why);
  while (command.flush() && own.beat()) {
    const short writing = command.unsent() > 0 ? POLLOUT : 0;
    std::array<pollfd, 2> waits{pollfd{command.in(), POLLIN, 0}, pollfd{writing ? command.out() : -1, writing, 0}};
    poll(waits.data(), waits.size(), k_beat_ms);
    if (waits[0].revents != 0 && !command.read_some()) return;
    while (command.take()) continue;  // no rank is left for these frames
  }
}

/// Moves standard input and output to other descriptors, so that other code cannot write into the connection.
std::unique_ptr<frame_stream> take_connection() {
  constexpr int k_least = 10;
  const int in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, k_least);
  const int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, k_least);
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (in < 0 || out < 0 || nothing < 0)
    throw command_failure("--agent needs open standard input and output, /dev/null, and free file descriptors");
  dup2(nothing, STDIN_FILENO);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  close(nothing);
  return std::make_unique<frame_stream>(in, out, k_longest_from_command);
}

/// Returns a free port for MASTER_PORT, which a firewall between the hosts must pass like the ports of ranks.
std::uint16_t port_for_master() {
  const auto network = network_in_environment();  // if wrong, the ranks report the error
  return network ? find_free_port(network->interfaces.first_port, network->interfaces.last_port) : find_free_port();
}

}  // namespace

int run_agent() {
  for (const int number : k_forwarded) signal(number, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  const auto command = take_connection();
  command->send(std::string(k_agent_greeting) + lsched_version() + " " + std::to_string(port_for_master()) + " " +
                own_host_name() + " " + shell_connection().addresses() + "\n");
  if (!command->flush()) return 1;
  const auto order = receive_order(*command);
  if (!order) return 1;
  std::string path;
  int status = 0;
  if (const auto why = prepare(*order, path, status)) {
    send_done(*command, status, *why);
    return status;
  }
  agent relay(*command, *order);
  if (!relay.start(path)) {
    send_done(*command, 1, std::string("cannot start the ranks: ") + std::strerror(errno) + " (raise `ulimit -n`)");
    return 1;
  }
  status = relay.relay();
  if (relay.is_connected()) send_done(*command, status, "");
  return status;
}

}  // namespace lsched::cli
