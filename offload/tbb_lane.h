// The lane on a oneTBB arena. Only in builds with LSCHED_HAVE_TBB; no oneTBB header here.
//
// Its workers sleep while there is no job; the owner of the engine does pieces too (libsched/engine/lane.h, help()). So
// a worker that is late, because its core was not free after all, costs what it would have saved and no more.
#pragma once

#include <memory>

#include "libsched/engine/lane.h"
#include "offload/job_board.h"

namespace lsched {

class tbb_lane final : public lane {
 public:
  /// `workers`: at least 1; each wants a core of its own. All signals are blocked in threads that oneTBB makes for it
  /// at once. `bell` is this rank's, and outlives the lane. Throws std::system_error if the system refuses a thread.
  tbb_lane(doorbell& bell, unsigned workers);

  /// Waits for jobs under way; bounded by their arithmetic.
  ~tbb_lane() override;

  std::string name() const override;
  std::uint64_t least_bytes() const override;
  bool submit(const lane_job& job) override;  // oneTBB takes memory from its own pool
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
  const std::unique_ptr<shared_job_board, let_go>
      board_;  ///< shared with workers that were called and are not here yet
  std::unique_ptr<arena> arena_;
};

}  // namespace lsched
