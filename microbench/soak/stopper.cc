#include "microbench/soak/stopper.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <ctime>
#include <new>
#include <string>
#include <utility>

#include "bindings/cli/common/errors.h"
#include "libsched/schedule/draw.h"

namespace lsched::cli {
namespace {

constexpr double k_shortest_stop_ms = 0.2;
constexpr double k_longest_stop_ms = 20;

using counter = std::atomic<std::uint64_t>;

struct orders {
  double mean_ms;
  std::uint64_t seed;
};

timespec timespec_of(double ms) {
  const double seconds = std::floor(ms / 1e3);
  return {.tv_sec = static_cast<time_t>(seconds), .tv_nsec = static_cast<long>((ms - seconds * 1e3) * 1e6)};
}

/// Random numbers in [0, 1).
class draws {
 public:
  explicit draws(std::uint64_t seed) : seed_(mix(seed)) {}
  double next() { return static_cast<double>(mix(seed_ ^ ++drawn_) >> 11) * 0x1p-53; }

 private:
  std::uint64_t seed_, drawn_ = 0;
};

// --- in the children ---------------------------------------------------------------------------------------

bool signal_to(int process, int signal) { return syscall(SYS_pidfd_send_signal, process, signal, nullptr, 0) == 0; }

/// Ignores the signals that would end this process. The rank gets the same signals, and this process must first
/// continue a stopped rank.
void ignore_requests_to_end() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) signal(number, SIG_IGN);
}

/// Waits until no process has the write end of the pipe open.
void wait_for_end(int descriptor) {
  char nothing = 0;
  while (read(descriptor, &nothing, 1) != 0 && errno == EINTR) {
  }
}

/// Forks the guard. When this process has ended for any reason, the guard continues the rank.
void start_guard(int rank_process) {
  std::array<int, 2> life{};
  if (pipe2(life.data(), O_CLOEXEC) != 0) _exit(1);
  const pid_t guard = fork();
  if (guard < 0) _exit(1);
  if (guard > 0) return static_cast<void>(close(life[0]));
  close(life[1]);
  wait_for_end(life[0]);
  signal_to(rank_process, SIGCONT);
  _exit(0);
}

/// Waits for `ms`. Returns false if the rank has closed its end of the pipe.
bool wait_for_next(int from_rank, double ms) {
  pollfd end{.fd = from_rank, .events = POLLIN, .revents = 0};
  const timespec time = timespec_of(ms);
  return ppoll(&end, 1, &time, nullptr) == 0;
}

void stop_for(int rank_process, double ms) {
  const timespec time = timespec_of(ms);
  if (!signal_to(rank_process, SIGSTOP)) return;
  nanosleep(&time, nullptr);
  signal_to(rank_process, SIGCONT);
}

[[noreturn]] void become_stopper(pid_t rank, int from_rank, counter& stops) {
  const int rank_process = static_cast<int>(syscall(SYS_pidfd_open, rank, 0));
  const bool dies_with_rank = prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == rank;
  if (rank_process < 0 || !dies_with_rank) _exit(1);
  ignore_requests_to_end();
  start_guard(rank_process);
  orders what{};
  if (read(from_rank, &what, sizeof what) != static_cast<ssize_t>(sizeof what)) _exit(0);
  draws random(what.seed);
  while (wait_for_next(from_rank, -std::log1p(-random.next()) * what.mean_ms)) {
    stop_for(rank_process, k_shortest_stop_ms + random.next() * (k_longest_stop_ms - k_shortest_stop_ms));
    stops.fetch_add(1);
  }
  _exit(0);
}

command_failure cannot_start() {
  return command_failure(std::string("--stops: cannot start the process that stops this rank: ") +
                         std::strerror(errno));
}

}  // namespace

stopper::stopper() {
  void* const place = mmap(nullptr, sizeof(counter), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) throw cannot_start();
  stops_ = new (place) counter(0);
  const pid_t rank = getpid();
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) == 0 && (child_ = fork()) == 0) {
    close(ends[1]);
    become_stopper(rank, ends[0], *stops_);
  }
  if (child_ < 0) throw cannot_start();
  close(ends[0]);
  orders_ = ends[1];
}

stopper::~stopper() {
  end();
  munmap(stops_, sizeof(counter));
}

// The write does not block, because the pipe is empty. SIGPIPE is ignored, because the death of the child must not end
// the rank.
void stopper::begin(double mean_ms, std::uint64_t seed) {
  const orders what{.mean_ms = mean_ms, .seed = seed};
  const auto before = signal(SIGPIPE, SIG_IGN);
  const bool is_told = write(orders_, &what, sizeof what) == static_cast<ssize_t>(sizeof what);
  signal(SIGPIPE, before);
  if (!is_told) throw cannot_start();
}

std::uint64_t stopper::end() {
  if (orders_ >= 0) close(std::exchange(orders_, -1));
  if (child_ > 0) waitpid(std::exchange(child_, -1), nullptr, 0);
  return stops_->load();
}

}  // namespace lsched::cli
