#include "bindings/cli/common/launcher.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "bindings/cli/common/errors.h"
#include "bindings/cli/common/executable.h"
#include "bindings/cli/common/recording_words.h"
#include "bindings/environment.h"
#include "libsched/transport/shm/region_size.h"
#include "libsched/transport/shm/shm_segment.h"
#include "offload/cores.h"
#include "ops/counted.h"

namespace lsched::cli {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr auto k_grace = 1s;        ///< between the request to end and the end
constexpr int k_least_number = 10;  ///< of descriptors that ranks inherit: scripts use the smaller ones

struct child {
  std::int32_t rank = 0;
  pid_t process = 0;
  bool is_running = true;
  bool is_told_of = false;
  int wait_status = 0;
};

/// Why a child has not become a rank.
struct start_fault {
  const char* action;  ///< that failed, a literal, which the launcher has at the same address; null: execv
  int error;
};

/// What a rank writes to one of its outputs, and where it goes.
struct rank_output {
  std::int32_t rank;
  int from;
  std::FILE* to;
  std::string unfinished{};  ///< a line
};

/// Copies line by line, each behind the rank, until nobody can write any more.
void prepend_ranks(std::vector<rank_output> outputs) {
  std::vector<pollfd> waits;
  for (const rank_output& each : outputs) waits.push_back({each.from, POLLIN, 0});
  for (std::size_t left = outputs.size(); left > 0 && (poll(waits.data(), waits.size(), -1) > 0 || errno == EINTR);)
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (std::exchange(waits[i].revents, 0) == 0) continue;
      rank_output& one = outputs[i];
      std::array<char, 4096> piece{};
      const ssize_t got = read(one.from, piece.data(), piece.size());
      if (got > 0) one.unfinished.append(piece.data(), static_cast<std::size_t>(got));
      if (got <= 0 && !one.unfinished.empty()) one.unfinished += '\n';
      std::string lines;
      std::size_t begin = 0;
      for (std::size_t end = 0; (end = one.unfinished.find('\n', begin)) != std::string::npos; begin = end + 1)
        lines += std::to_string(one.rank) + ": " + one.unfinished.substr(begin, end + 1 - begin);
      one.unfinished.erase(0, begin);
      std::fwrite(lines.data(), 1, lines.size(), one.to);
      std::fflush(one.to);
      if (got > 0) continue;
      waits[i].fd = -1;
      --left;
    }
}

/// The action that failed, and why.
std::string system_text(const std::string& action) {
  const std::string advice = errno == EMFILE ? " (`ulimit -n` is too low)" : "";
  return action + ": " + std::strerror(errno) + advice;
}

/// The signals that are waited for instead of handled; restored in the ranks and at the end.
class signal_gate {
 public:
  signal_gate() {
    sigemptyset(&waited_);
    for (const int number : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) sigaddset(&waited_, number);
    signal(SIGCHLD, SIG_DFL);  // ignored, as some parents leave it, children would vanish unseen
    sigprocmask(SIG_BLOCK, &waited_, &before_);
  }
  ~signal_gate() { restore(); }
  signal_gate(const signal_gate&) = delete;
  signal_gate& operator=(const signal_gate&) = delete;

  void restore() const { sigprocmask(SIG_SETMASK, &before_, nullptr); }

  /// The next signal, or nothing when `deadline` has passed. SIGCHLD is one signal for any number of
  /// children.
  std::optional<siginfo_t> next(std::optional<clock::time_point> deadline) const {
    for (;;) {
      siginfo_t news{};
      const clock::duration left = deadline ? *deadline - clock::now() : clock::duration(1h);
      const auto whole = std::chrono::floor<std::chrono::seconds>(left);
      const timespec limit{.tv_sec = whole.count(), .tv_nsec = std::chrono::nanoseconds(left - whole).count()};
      if (left >= 0s && sigtimedwait(&waited_, &news, &limit) > 0) return news;
      if (deadline && clock::now() >= *deadline) return std::nullopt;
    }
  }

 private:
  sigset_t waited_{};
  sigset_t before_{};
};

/// Of this process, which has one thread; none where the system does not tell.
std::vector<pid_t> find_children() {
  std::ifstream list("/proc/thread-self/children");
  return {std::istream_iterator<pid_t>(list), {}};
}

/// /proc may be that of another namespace, where numbers mean other processes.
bool is_child(pid_t process) {
  siginfo_t nothing{};
  return waitid(P_PID, static_cast<id_t>(process), &nothing, WEXITED | WNOHANG | WNOWAIT) == 0;
}

/// A free port of this machine; 0: all ports are in use.
std::uint16_t find_free_port() {
  const int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof place;
  auto* const address = reinterpret_cast<sockaddr*>(&place);
  const bool is_bound = probe >= 0 && bind(probe, address, bytes) == 0 && getsockname(probe, address, &bytes) == 0;
  if (probe >= 0) close(probe);
  return is_bound ? ntohs(place.sin_port) : std::uint16_t{0};
}

/// What programs look for that torchrun starts.
bool set_common_variables(std::int32_t rank, std::int32_t ranks, std::uint16_t port) {
  const std::string own = std::to_string(rank), all = std::to_string(ranks);
  for (const char* variable : {"RANK", "LOCAL_RANK"})
    if (setenv(variable, own.c_str(), 1) != 0) return false;
  for (const char* variable : {"WORLD_SIZE", "LOCAL_WORLD_SIZE"})
    if (setenv(variable, all.c_str(), 1) != 0) return false;
  const int replaces = in_environment(k_run_size) != nullptr ? 1 : 0;  // by a launcher around this one
  return setenv("MASTER_ADDR", "127.0.0.1", replaces) == 0 &&
         (port == 0 || setenv("MASTER_PORT", std::to_string(port).c_str(), replaces) == 0);
}

class world_launcher {
 public:
  explicit world_launcher(const launch_request& request)
      : request_(request),
        segment_(require(shm_segment::create(request.ranks, require(region_in_environment(k_least_region_bytes)),
                                             usable_cores(), recorder_in_environment()))) {
    if (request.bind && (cores_ = allowed_cores()).empty())
      throw command_failure(system_text("--pin: cannot read the allowed cores"));
    for (const std::string& word : request_.words) words_.push_back(const_cast<char*>(word.c_str()));
    words_.push_back(nullptr);
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) throw command_failure(system_text("prctl"));
    getrlimit(RLIMIT_NOFILE, &descriptors_);
    const rlimit most{.rlim_cur = descriptors_.rlim_max, .rlim_max = descriptors_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &most);  // there is one for each rank
  }
  ~world_launcher() {
    for (const child& each : children_) {  // only where not all could be started
      if (!each.is_running) continue;
      kill(each.process, SIGKILL);
      waitpid(each.process, nullptr, 0);
    }
    end_orphans();
    if (copier_ > 0) waitpid(copier_, nullptr, 0);  // nobody is left who could write
    for (const int end : writing_ends_) close(end);
  }
  world_launcher(const world_launcher&) = delete;
  world_launcher& operator=(const world_launcher&) = delete;

  int run() {
    children_.reserve(static_cast<std::size_t>(request_.ranks));
    for (std::int32_t rank = 0; rank < request_.ranks; ++rank)
      if (const int error = start(rank); error != 0) return refuse_program(request_.words.front(), error);
    if (request_.prepends_rank) start_copier();
    if (request_.limit) deadline_ = clock::now() + *request_.limit;
    for (reap(); running() != 0; reap()) {
      const auto news = gate_.next(deadline_);
      if (!news)
        time_is_up();
      else if (news->si_signo != SIGCHLD)
        pass_on(*news);
    }
    return exit_status_;
  }

 private:
  /// Returns 0, or the error for which the system does not execute the program.
  int start(std::int32_t rank) {
    std::array<int, 2> ends{};      // a successful exec closes the pipe; else the child writes a start_fault
    std::array<int, 2> lifeline{};  // who owns the reading end is killed once the writing end is closed
    if (pipe2(ends.data(), O_CLOEXEC) != 0 || pipe2(lifeline.data(), O_CLOEXEC) != 0 ||
        fcntl(lifeline[0], F_SETSIG, SIGKILL) != 0 || fcntl(lifeline[0], F_SETFL, O_ASYNC) != 0)
      throw command_failure(system_text("cannot start rank " + std::to_string(rank)));
    writing_ends_.push_back(lifeline[1]);
    std::array<int, 2> writing{STDOUT_FILENO, STDERR_FILENO};
    if (request_.prepends_rank)
      for (std::size_t i = 0; i < writing.size(); ++i) writing[i] = open_output(rank, i == 0 ? stdout : stderr);
    const pid_t launcher = getpid();
    const pid_t process = fork();
    if (process == 0 && request_.prepends_rank)
      for (std::size_t i = 0; i < writing.size(); ++i) dup2(writing[i], static_cast<int>(i) + 1);
    if (process == 0) become(rank, launcher, lifeline[0], ends[1]);
    std::string why = process < 0 ? system_text("fork") : std::string();
    close(ends[1]);
    close(lifeline[0]);
    if (request_.prepends_rank)
      for (const int end : writing) close(end);
    if (process > 0) children_.push_back({.rank = rank, .process = process});
    start_fault fault{};
    ssize_t got = 0;
    do {
      got = read(ends[0], &fault, sizeof fault);
    } while (got < 0 && errno == EINTR);
    close(ends[0]);
    const bool has_fault = got == sizeof fault;
    if (has_fault && fault.action == nullptr) return fault.error;
    errno = fault.error;
    if (has_fault) why = system_text(fault.action);
    if (!why.empty()) throw command_failure("cannot start rank " + std::to_string(rank) + ": " + why);
    return 0;
  }

  /// A pipe in the place of `to`; answers the end that the rank writes to.
  int open_output(std::int32_t rank, std::FILE* to) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) throw command_failure(system_text("--prepend-rank"));
    outputs_.push_back({rank, ends[0], to});
    return ends[1];
  }

  /// A process of its own: this one waits for signals. It keeps no lifeline, and no signal ends it before the ranks.
  void start_copier() {
    copier_ = fork();
    if (copier_ < 0) throw command_failure(system_text("fork"));
    if (copier_ == 0) {
      for (const int end : writing_ends_) close(end);
      prepend_ranks(std::move(outputs_));
      _exit(0);
    }
    strangers_.push_back(copier_);
    for (const rank_output& each : outputs_) close(each.from);
  }

  /// In the child: one thread, and nothing of the launcher's is needed any more.
  [[noreturn]] void become(std::int32_t rank, pid_t launcher, int lifeline, int complaints) {
    const char* const failed = prepare(rank, launcher, lifeline);
    if (failed == nullptr) execv(request_.path.c_str(), words_.data());
    const start_fault fault{failed, errno};
    _exit(write(complaints, &fault, sizeof fault) > 0 ? 1 : 2);
  }

  /// Answers what failed, with errno, or nullptr.
  const char* prepare(std::int32_t rank, pid_t launcher, int lifeline) {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return "prctl";
    if (getppid() != launcher) _exit(1);  // it died before the line above
    if (fcntl(segment_->descriptor(), F_SETFD, 0) != 0) return "passing the segment on";
    const int inherited = fcntl(lifeline, F_DUPFD, k_least_number);
    if (inherited < 0 && errno == EINVAL) errno = EMFILE;  // the limit is below that number
    if (inherited < 0) return "passing the launcher's pipe on, by a descriptor from 10 on";
    const bool has_environment =
        set_common_variables(rank, request_.ranks, port_) &&
        setenv(k_run_descriptor, std::to_string(segment_->descriptor()).c_str(), 1) == 0 &&
        setenv(k_run_rank, std::to_string(rank).c_str(), 1) == 0 &&
        setenv(k_run_size, std::to_string(request_.ranks).c_str(), 1) == 0 &&
        setenv(k_run_launcher, std::to_string(inherited).c_str(), 1) == 0 &&
        (request_.start_timeout_s == 0 ||
         setenv("LSCHED_START_TIMEOUT", std::to_string(request_.start_timeout_s).c_str(), 1) == 0);
    if (!has_environment) return "setting the environment";
    unsetenv("LSCHED_RECORDER");  // the segment says where; a launcher among the ranks' programs has a world of its own
    if (rank != 0) {
      const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
      if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0) return "/dev/null";
    }
    if (!cores_.empty()) {
      const unsigned core = cores_[static_cast<std::size_t>(rank) % cores_.size()];
      cpu_set_t only;
      CPU_ZERO(&only);
      CPU_SET(core, &only);
      if (sched_setaffinity(0, sizeof only, &only) != 0) return "--pin";
    }
    setrlimit(RLIMIT_NOFILE, &descriptors_);
    gate_.restore();
    return nullptr;
  }

  /// Collects everybody who has ended, also what ranks have left behind. Of ranks found at once, deaths by signal come
  /// first: the others may well have failed because of them.
  void reap() {
    std::vector<child*> ended;
    int wait_status = 0;
    for (pid_t process = 0; (process = waitpid(-1, &wait_status, WNOHANG)) > 0;) {
      record_end_of(process);
      const auto is_it = [&](const child& each) { return each.is_running && each.process == process; };
      const auto found = std::ranges::find_if(children_, is_it);
      if (found == children_.end()) continue;
      found->is_running = false;
      found->wait_status = wait_status;
      ended.push_back(&*found);
      sign_off(*found);
    }
    std::stable_partition(ended.begin(), ended.end(), [](const child* each) { return WIFSIGNALED(each->wait_status); });
    for (const child* each : ended) report(*each);
  }

  /// A rank is lost whose process has ended before the rank had closed its world. The other ranks notice most such ends
  /// by themselves, but not where a sandbox refuses the system calls for that.
  void record_end_of(pid_t process) {
    const process_id gone{process, self_.space};
    for (std::int32_t rank = 0; rank < request_.ranks; ++rank) {
      const shm_page& page = segment_->page(rank);
      if (page.process.load() == gone && page.state_of_rank.load() != shm_page::closed) segment_->record_lost(rank);
    }
  }

  /// The other ranks wait for a rank to open. They find out at once that the rank will not come, unless a process that
  /// the rank's own process has left behind is about to open in its place.
  void sign_off(const child& ended) {
    const shm_page& page = segment_->page(ended.rank);
    const process_id holder = page.process.load();
    const bool is_open = page.state_of_rank.load() != shm_page::absent;
    if (is_open || (holder.number != 0 && holder != process_id{ended.process, self_.space})) return;
    segment_->record_lost(ended.rank);
    segment_->enter(ended.rank, shm_page::closed);
    segment_->page(ended.rank).life.wake();
  }

  void report(const child& ended) {
    const bool is_signal = WIFSIGNALED(ended.wait_status);
    const int number = is_signal ? WTERMSIG(ended.wait_status) : WEXITSTATUS(ended.wait_status);
    // A death explains the exits of others, even of those that ended a moment before it could be collected.
    const bool explains = is_signal && !is_late_ && exit_status_ < 128;
    if (exit_status_ == 0 || explains) exit_status_ = is_signal ? 128 + number : number;
    if (exit_status_ > 0 && exit_status_ < 128) tell_unclosed();
    if (number == 0) return;
    const std::string name = name_of(ended);
    if (is_signal)
      tell(name + " was killed by signal " + std::to_string(number) + " (" + strsignal(number) + ")" +
           (is_late_ ? "" : place_of(ended.rank)));
    else
      tell(name + " exited with status " + std::to_string(number));
  }

  static std::string name_of(const child& one) {
    return "rank " + std::to_string(one.rank) + " (pid " + std::to_string(one.process) + ")";
  }

  /// Where ranks fail and none was killed, those explain it that have ended well, but did not close their world.
  void tell_unclosed() {
    for (child& each : children_) {
      const bool is_open = segment_->page(each.rank).state_of_rank.load() == shm_page::open;
      if (each.is_running || each.wait_status != 0 || !is_open || std::exchange(each.is_told_of, true)) continue;
      tell(name_of(each) + " exited with status 0 without closing its world" + place_of(each.rank));
    }
  }

  /// ": in allreduce/ring #0, round 17, …": where the rank is, or was when it ended.
  std::string place_of(std::int32_t rank) const {
    const std::string place = words_for_place(read_record(segment_->record(rank)), wall_offset_ns());
    return place.empty() ? "" : ": " + place;
  }

  /// Where those ranks are that still run and have a schedule, some of them.
  void tell_places() const {
    constexpr int k_most = 16;
    int found = 0;
    for (const child& each : children_) {
      if (!each.is_running) continue;
      const std::string place = place_of(each.rank);
      if (place.empty() || ++found > k_most) continue;
      tell(name_of(each) + place);
    }
    if (found > k_most) tell("and " + counted(found - k_most, "rank") + " more");
  }

  /// First a request, then the end.
  void time_is_up() {
    const int signal = is_late_ ? SIGKILL : SIGTERM;
    if (!is_late_) {
      const auto seconds = std::chrono::duration<double>(*request_.limit).count();
      std::array<char, 32> text{};
      std::snprintf(text.data(), text.size(), "%g s", seconds);
      tell("time limit of " + std::string(text.data()) + " reached: ending " + std::to_string(running()) + " of " +
           counted(request_.ranks, "rank"));
      tell_unclosed();
      tell_places();
      if (exit_status_ == 0) exit_status_ = k_exit_timeout;
    }
    for (const child& each : children_)
      if (each.is_running) kill(each.process, signal);
    deadline_ = is_late_ ? std::nullopt : std::optional(clock::now() + k_grace);
    is_late_ = true;
  }

  /// What ranks have left behind: it may end by itself, then it is asked to, then it is made to.
  void end_orphans() {
    for (const int signal : {0, SIGTERM}) {
      const auto deadline = clock::now() + k_grace;
      while (send_to_orphans(signal) && gate_.next(deadline)) {
      }
    }
    while (send_to_orphans(SIGKILL)) gate_.next(std::nullopt);
  }

  /// To the parents among them; their children come next. False: there are none that could be sent anything.
  bool send_to_orphans(int signal) const {
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    bool is_any = false;
    for (const pid_t each : find_children()) {
      const bool is_stranger = std::ranges::find(strangers_, each) != strangers_.end();
      if (!is_stranger && is_child(each) && kill(each, signal) == 0) is_any = true;
    }
    return is_any;
  }

  /// What a terminal sends has reached every member of our process group already.
  void pass_on(const siginfo_t& news) {
    const bool is_from_terminal = news.si_code == SI_KERNEL;
    for (const child& each : children_) {
      if (!each.is_running || (is_from_terminal && getpgid(each.process) == getpgrp())) continue;
      kill(each.process, news.si_signo);
    }
  }

  std::ptrdiff_t running() const {
    return std::count_if(children_.begin(), children_.end(), [](const child& each) { return each.is_running; });
  }
  void tell(const std::string& line) const { std::fprintf(stderr, "%s: %s\n", request_.title.c_str(), line.c_str()); }

  const launch_request& request_;
  const process_id self_ = own_process();
  std::shared_ptr<shm_segment> segment_;
  signal_gate gate_;
  std::vector<pid_t> strangers_ = find_children();  ///< children that are no ranks', of the program before this one too
  rlimit descriptors_{};
  const std::uint16_t port_ = find_free_port();  ///< MASTER_PORT of the ranks
  std::vector<unsigned> cores_;
  std::vector<char*> words_;
  std::vector<child> children_;
  std::vector<int> writing_ends_;     ///< of the pipes that ranks inherit
  std::vector<rank_output> outputs_;  ///< with --prepend-rank
  pid_t copier_ = 0;
  std::optional<clock::time_point> deadline_;
  bool is_late_ = false;
  int exit_status_ = 0;
};

}  // namespace

int launch(const launch_request& request) { return world_launcher(request).run(); }

}  // namespace lsched::cli
