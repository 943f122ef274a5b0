#include "offload/tbb_lane.h"

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/task_arena.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "ops/counted.h"

namespace lsched {

// The arena has no place for the thread that submits: it goes on polling. oneTBB's own limit is one worker less than
// there are cores; who asks for more gets them.
struct tbb_lane::arena {
  explicit arena(unsigned workers) : places(static_cast<int>(workers), 0) {
    if (static_cast<int>(workers) >= oneapi::tbb::info::default_concurrency())
      limit.emplace(oneapi::tbb::global_control::max_allowed_parallelism, workers + 1);
  }
  std::optional<oneapi::tbb::global_control> limit;
  oneapi::tbb::task_arena places;
};

tbb_lane::tbb_lane(doorbell& bell, unsigned workers)
    : workers_(workers), board_(new shared_job_board(bell)), arena_(std::make_unique<arena>(workers)) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // inherited by new threads
  call(workers_);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

tbb_lane::~tbb_lane() {
  board_->close();
  board_->await_workers(std::chrono::seconds(1));
  board_->let_go();
}

std::string tbb_lane::name() const { return counted(workers_, "oneTBB worker"); }

// Three operands of this size are beyond a core's second-level cache, and take several times a wake-up.
std::uint64_t tbb_lane::least_bytes() const { return 1 << 20; }

bool tbb_lane::submit(const lane_job& job) {
  const std::uint64_t pieces = board_->submit(job);
  if (pieces != 0) call(std::min<std::uint64_t>(workers_, pieces));
  return pieces != 0;
}

void tbb_lane::call(std::uint64_t workers) {
  for (std::uint64_t i = 0; i < workers; ++i) {
    board_->expect_worker();
    arena_->places.enqueue([board = board_] { board->work(); });
  }
}

}  // namespace lsched
