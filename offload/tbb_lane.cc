#include "offload/tbb_lane.h"

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

#include "libsched/transport/quiet_thread.h"
#include "ops/counted.h"

namespace lsched {
namespace {

// Starts `number` threads and ends them again. Throws if the system refuses to start a thread. Without this test,
// oneTBB would end the process if a worker could not start another worker.
void expect_threads(unsigned number) {
  std::atomic_flag may_end;
  std::vector<std::jthread> threads;
  const struct release {
    std::atomic_flag& flag;
    ~release() { flag.test_and_set(), flag.notify_all(); }
  } before_threads_are_joined{may_end};
  for (unsigned i = 0; i < number; ++i) threads.emplace_back([&] { may_end.wait(false); });
}

}  // namespace

// The arena has no slot for the submitting thread, which continues to poll. By default, oneTBB uses one worker less
// than there are cores. If the lane has more workers, `limit` raises this default.
struct tbb_lane::arena {
  explicit arena(unsigned workers) : places(static_cast<int>(workers), 0) {
    if (static_cast<int>(workers) >= oneapi::tbb::info::default_concurrency())
      limit.emplace(oneapi::tbb::global_control::max_allowed_parallelism, workers + 1);
  }
  std::optional<oneapi::tbb::global_control> limit;
  oneapi::tbb::task_arena places;
};

tbb_lane::tbb_lane(doorbell& bell, unsigned workers) : workers_(workers), board_(new shared_job_board(bell)) {
  const blocked_signals while_workers_start;
  expect_threads(workers_);
  try {
    arena_ = std::make_unique<arena>(workers);
    call(workers_);
  } catch (const std::runtime_error&) {  // oneTBB does not report the system's error code
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again), "a oneTBB worker");
  }
}

tbb_lane::~tbb_lane() {
  board_->close();
  board_->await_workers(std::chrono::seconds(1));
}

std::string tbb_lane::name() const { return counted(workers_, "oneTBB worker"); }

// Three operands of this size exceed a core's L2 cache. The arithmetic takes several times as long as the wake-up of a
// thread.
std::uint64_t tbb_lane::least_bytes() const { return 1 << 20; }

// If oneTBB cannot start a worker, the engine's owner executes that worker's pieces (help).
bool tbb_lane::submit(const lane_job& job) {
  const std::uint64_t pieces = board_->submit(job);
  try {
    call(std::min<std::uint64_t>(workers_, pieces));
  } catch (const std::exception&) {
  }
  return pieces != 0;
}

void tbb_lane::call(std::uint64_t workers) {
  for (std::uint64_t i = 0; i < workers; ++i) {
    board_->expect_worker();
    arena_->places.enqueue([board = board_.get()] { board->work(); });
  }
}

}  // namespace lsched
