#include "bindings/cli/common/launcher.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
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
#include "bindings/cli/common/rank_outputs.h"
#include "bindings/cli/common/recording_words.h"
#include "bindings/cli/common/signal_gate.h"
#include "bindings/environment.h"
#include "libsched/transport/shm/region_size.h"
#include "libsched/transport/shm/shm_segment.h"
#include "offload/cores.h"
#include "ops/counted.h"

namespace lsched::cli {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr auto k_grace = 1s;        ///< time between SIGTERM and SIGKILL; also the time before processes that ranks
                                    ///< have left behind get SIGTERM
constexpr int k_least_number = 10;  ///< minimum number of the inherited descriptor, because shell scripts use 0 to 9

struct child {
  std::int32_t rank = 0;
  pid_t process = 0;
  bool is_running = true;
  bool is_told_of = false;
  int wait_status = 0;
};

/// The error of a child that could not execute the program of its rank. The child writes this struct to a pipe.
struct start_fault {
  const char* action;  ///< failed action; null: execv. The text is a literal, so the pointer is also valid in the
                       ///< launcher
  int error;
};

/// Returns a text with the failed action and the meaning of errno.
std::string system_text(const std::string& action) {
  const std::string advice = errno == EMFILE ? " (raise `ulimit -n`)" : "";
  return action + ": " + std::strerror(errno) + advice;
}

/// Returns the child processes of this process. This process must be single-threaded. Returns an empty list if /proc
/// does not list the children.
std::vector<pid_t> find_children() {
  std::ifstream list("/proc/thread-self/children");
  return {std::istream_iterator<pid_t>(list), {}};
}

/// Returns true if the process is a child of this process. This check is needed because /proc may belong to another PID
/// namespace, in which the same id belongs to another process.
bool is_child(pid_t process) {
  siginfo_t nothing{};
  return waitid(P_PID, static_cast<id_t>(process), &nothing, WEXITED | WNOHANG | WNOWAIT) == 0;
}

/// Sets the variables that torchrun sets for its programs. Returns false if setenv fails.
bool set_common_variables(std::int32_t rank, std::int32_t ranks, const host_part& part) {
  const std::pair<const char*, std::int32_t> places[]{{"RANK", part.first + rank},
                                                      {"LOCAL_RANK", rank},
                                                      {"WORLD_SIZE", part.ranks_of_world},
                                                      {"LOCAL_WORLD_SIZE", ranks}};
  for (const auto& [variable, number] : places)
    if (setenv(variable, std::to_string(number).c_str(), 1) != 0) return false;
  // Existing values are kept, unless `lsched run --hosts` has chosen the values for all hosts, or an outer launcher has
  // set the existing values.
  const bool is_whole_world = part.exchanges.empty();
  const int replaces = !is_whole_world || in_environment(k_run_size) != nullptr ? 1 : 0;
  return setenv("MASTER_ADDR", part.master.c_str(), replaces) == 0 &&
         (part.master_port == 0 || setenv("MASTER_PORT", std::to_string(part.master_port).c_str(), replaces) == 0);
}

/// Returns the part of a world that has no ranks on other hosts.
host_part whole_world(std::int32_t ranks) {
  return {.ranks_of_world = ranks, .master = "127.0.0.1", .master_port = find_free_port()};
}

/// Returns the segment that the ranks inherit, or null if the world has ranks on other hosts.
std::shared_ptr<shm_segment> create_segment(const launch_request& request) {
  if (request.part) return nullptr;
  return require(shm_segment::create(request.ranks, require(region_in_environment(k_least_region_bytes)),
                                     usable_cores(), recorder_in_environment()));
}

class world_launcher {
 public:
  explicit world_launcher(const launch_request& request)
      : request_(request),
        part_(request.part ? *request.part : whole_world(request.ranks)),
        segment_(create_segment(request)),
        gate_(request.part.has_value()) {
    if (request.bind && (cores_ = allowed_cores()).empty())
      throw command_failure(system_text("--pin: cannot read the allowed cores"));
    for (const std::string& word : request_.words) words_.push_back(const_cast<char*>(word.c_str()));
    words_.push_back(nullptr);
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) throw command_failure(system_text("prctl"));
    getrlimit(RLIMIT_NOFILE, &descriptors_);
    const rlimit most{.rlim_cur = descriptors_.rlim_max, .rlim_max = descriptors_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &most);  // the launcher has an open descriptor for each rank
  }
  ~world_launcher() {
    for (const child& each : children_) {  // children still run here only if another rank could not be started
      if (!each.is_running) continue;
      kill(each.process, SIGKILL);
      waitpid(each.process, nullptr, 0);
    }
    end_orphans();
    if (copier_ > 0) waitpid(copier_, nullptr, 0);  // the copier ends because all write ends are closed
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
      else if (news->si_signo == k_end_ranks)
        end_ranks();
      else if (news->si_signo != SIGCHLD)
        pass_on(*news);
    }
    return exit_status_;
  }

 private:
  /// Starts a rank. Returns 0, or the errno of execv. Throws command_failure if another step fails.
  int start(std::int32_t rank) {
    std::array<int, 2> ends{};      // a successful exec closes this pipe; a child that fails writes a start_fault
    std::array<int, 2> lifeline{};  // the kernel kills the owner of the read end once the write end is closed
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

  /// Creates a pipe for the output stream `to` of a rank. Returns the write end, which the rank uses instead of the
  /// stream.
  int open_output(std::int32_t rank, std::FILE* to) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) throw command_failure(system_text("--prepend-rank: cannot create a pipe"));
    outputs_.push_back({part_.first + rank, ends[0], to});
    return ends[1];
  }

  /// Starts the copier, a separate process that copies the outputs of the ranks. The launcher cannot copy these
  /// outputs, because the launcher waits for signals. The copier closes its copies of all lifelines (see start()).
  /// Signals stay blocked in the copier, because the copier must not end before the ranks.
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

  /// Executes the program of a rank. Called in the child process.
  [[noreturn]] void become(std::int32_t rank, pid_t launcher, int lifeline, int complaints) {
    const char* const failed = prepare(rank, launcher, lifeline);
    if (failed == nullptr) execv(request_.path.c_str(), words_.data());
    const start_fault fault{failed, errno};
    _exit(write(complaints, &fault, sizeof fault) > 0 ? 1 : 2);
  }

  /// Prepares the child. Returns nullptr on success, or the failed action, with errno set.
  const char* prepare(std::int32_t rank, pid_t launcher, int lifeline) {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return "prctl";
    if (getppid() != launcher) _exit(1);  // the launcher died before prctl
    const int shared = segment_ != nullptr ? segment_->descriptor() : part_.exchanges[static_cast<std::size_t>(rank)];
    if (fcntl(shared, F_SETFD, 0) != 0) return "cannot pass a descriptor to the process";
    const int inherited = fcntl(lifeline, F_DUPFD, k_least_number);
    if (inherited < 0 && errno == EINVAL) errno = EMFILE;  // RLIMIT_NOFILE is at most k_least_number
    if (inherited < 0) return "cannot pass the launcher's pipe to the process as descriptor 10 or above";
    const bool has_environment =
        set_common_variables(rank, request_.ranks, part_) &&
        setenv(k_run_descriptor, std::to_string(shared).c_str(), 1) == 0 &&
        setenv(k_run_rank, std::to_string(part_.first + rank).c_str(), 1) == 0 &&
        setenv(k_run_size, std::to_string(part_.ranks_of_world).c_str(), 1) == 0 &&
        setenv(k_run_launcher, std::to_string(inherited).c_str(), 1) == 0 &&
        (request_.start_timeout_s == 0 ||
         setenv("LSCHED_START_TIMEOUT", std::to_string(request_.start_timeout_s).c_str(), 1) == 0);
    if (!has_environment) return "cannot set the environment variables";
    if (segment_ != nullptr)
      unsetenv("LSCHED_RECORDER");  // ranks find the recorder through the segment; a nested launcher must not use it
    if (part_.first + rank != 0) {
      const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
      if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0) return "cannot open /dev/null as standard input";
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

  /// Reaps all children that have ended, including processes that ranks have left behind. First reports the ranks that
  /// a signal has killed, because they may be the cause of other failures.
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

  /// Marks a rank as lost if its process has ended before the rank closed its world. Usually the other ranks detect the
  /// loss themselves, but a sandbox may refuse the necessary system calls.
  void record_end_of(pid_t process) {
    if (segment_ == nullptr) return;
    const process_id gone{process, self_.space};
    for (std::int32_t rank = 0; rank < request_.ranks; ++rank) {
      const shm_page& page = segment_->page(rank);
      if (page.process.load() == gone && page.state_of_rank.load() != shm_page::closed) segment_->record_lost(rank);
    }
  }

  /// If the process of a rank ended before it opened its world, marks the rank as lost and closed. The other ranks then
  /// stop waiting for this rank. Does nothing if the rank has started another process that may still open the world as
  /// this rank.
  void sign_off(const child& ended) {
    if (part_.report) part_.report(part_.first + ended.rank, ended.wait_status);
    if (segment_ == nullptr) return;
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
    // A death by a signal explains failures of other ranks, even if those failures were reported first.
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

  std::string name_of(const child& one) const {
    return "rank " + std::to_string(part_.first + one.rank) + " (pid " + std::to_string(one.process) + ")";
  }

  /// Reports, once, each rank that exited with status 0 without closing its world. Such a rank may be the cause if
  /// other ranks fail.
  void tell_unclosed() {
    if (segment_ == nullptr) return;
    for (child& each : children_) {
      const bool is_open = segment_->page(each.rank).state_of_rank.load() == shm_page::open;
      if (each.is_running || each.wait_status != 0 || !is_open || std::exchange(each.is_told_of, true)) continue;
      tell(name_of(each) + " exited with status 0 without closing its world" + place_of(each.rank));
    }
  }

  /// Returns a text with the current or last schedule, round and op of a rank, such as ": in allreduce/ring #0, round
  /// 17, …". The text may be empty.
  std::string place_of(std::int32_t rank) const {
    if (segment_ == nullptr) return "";
    const std::string place = words_for_place(read_record(segment_->record(rank)), wall_offset_ns());
    return place.empty() ? "" : ": " + place;
  }

  /// Prints the text of place_of() for each rank that still runs and has a schedule. Prints at most 16 ranks.
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

  void time_is_up() {
    if (!is_late_ && request_.limit) {
      const auto seconds = std::chrono::duration<double>(*request_.limit).count();
      std::array<char, 32> text{};
      std::snprintf(text.data(), text.size(), "%g s", seconds);
      tell("time limit of " + std::string(text.data()) + " reached: ending " + std::to_string(running()) + " of " +
           counted(request_.ranks, "rank"));
      tell_unclosed();
      tell_places();
      if (exit_status_ == 0) exit_status_ = k_exit_timeout;
    }
    end_ranks();
  }

  /// The first call sends SIGTERM to the ranks. The second call, which is due k_grace later, sends SIGKILL.
  void end_ranks() {
    const int signal = is_late_ ? SIGKILL : SIGTERM;
    for (const child& each : children_)
      if (each.is_running) kill(each.process, signal);
    deadline_ = is_late_ ? std::nullopt : std::optional(clock::now() + k_grace);
    is_late_ = true;
  }

  /// Ends the processes that ranks left behind. Waits for k_grace, sends SIGTERM, waits again, then sends SIGKILL.
  void end_orphans() {
    for (const int signal : {0, SIGTERM}) {
      const auto deadline = clock::now() + k_grace;
      while (send_to_orphans(signal) && gate_.next(deadline)) {
      }
    }
    while (send_to_orphans(SIGKILL)) gate_.next(std::nullopt);
  }

  /// Sends the signal to all orphans that are children of this process. When an orphan ends, its children become
  /// children of this process, and the next call sends them the signal. Returns false if no process got the signal.
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

  /// Passes a signal on to the ranks. (A signal from a terminal has already reached every member of the process group.)
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
  const host_part part_;
  const process_id self_ = own_process();
  std::shared_ptr<shm_segment> segment_;  ///< null if the world has ranks on other hosts
  signal_gate gate_;
  std::vector<pid_t> strangers_ = find_children();  ///< children that are not ranks: this process may have started them
                                                    ///< before its exec
  rlimit descriptors_{};
  std::vector<unsigned> cores_;
  std::vector<char*> words_;
  std::vector<child> children_;
  std::vector<int> writing_ends_;     ///< write ends of the lifelines
  std::vector<rank_output> outputs_;  ///< output streams of the ranks; empty without --prepend-rank
  pid_t copier_ = 0;
  std::optional<clock::time_point> deadline_;
  bool is_late_ = false;
  int exit_status_ = 0;
};

}  // namespace

std::uint16_t find_free_port(std::uint16_t first, std::uint16_t last) {
  const int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (probe < 0) return 0;
  bool is_bound = false;
  sockaddr_in place{};
  for (std::uint32_t port = last; !is_bound && port + 1 > first; --port) {
    place.sin_family = AF_INET;
    place.sin_addr.s_addr = htonl(INADDR_ANY);
    place.sin_port = htons(static_cast<std::uint16_t>(port));
    socklen_t bytes = sizeof place;
    auto* const address = reinterpret_cast<sockaddr*>(&place);
    is_bound = bind(probe, address, bytes) == 0 && getsockname(probe, address, &bytes) == 0;
  }
  close(probe);
  return is_bound ? ntohs(place.sin_port) : std::uint16_t{0};
}

int launch(const launch_request& request) { return world_launcher(request).run(); }

}  // namespace lsched::cli
