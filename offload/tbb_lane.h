// A lane (a pool of threads for arithmetic) that uses a oneTBB arena. The class exists only in builds with
// LSCHED_HAVE_TBB. This header includes no oneTBB header.
//
// The workers sleep while there is no job. Jobs are cut into pieces, and the engine's owner executes pieces, too
// (libsched/engine/lane.h, help()). So a worker that starts late, because its core was busy, never delays a job.
#pragma once

#include <memory>

#include "libsched/engine/lane.h"
#include "offload/job_board.h"

namespace lsched {

class tbb_lane final : public lane {
 public:
  /// `workers` must be at least 1; each worker should have its own core. Starts the threads, with all signals blocked.
  /// `bell` is this rank's doorbell and must outlive the lane. Throws std::system_error if the system refuses to start
  /// a thread.
  tbb_lane(doorbell& bell, unsigned workers);

  /// Waits for the jobs in flight.
  ~tbb_lane() override;

  std::string name() const override;
  std::uint64_t least_bytes() const override;
  bool submit(const lane_job& job) override;  // may allocate from oneTBB's pool
  std::size_t poll(std::span<std::uint64_t> out) override { return board_->poll(out); }
  bool help() override { return board_->help(); }
  void drain() override { board_->drain(); }

 private:
  struct arena;
  struct let_go {
    void operator()(shared_job_board* board) const { board->let_go(); }
  };
  void call(std::uint64_t workers);

  const unsigned workers_;
  /// The board of the jobs. Requested workers hold further references, even before they start.
  const std::unique_ptr<shared_job_board, let_go> board_;
  std::unique_ptr<arena> arena_;
};

}  // namespace lsched
