// The jobs of a lane (a pool of threads for arithmetic, libsched/engine/lane.h). Jobs are cut into pieces that any
// thread may execute. The engine's owner submits jobs and polls for completed jobs. Workers execute pieces, and so does
// the owner when it has nothing else to do.
//
// Each job is in a slot. A thread claims a piece by decrementing the slot's counter `unclaimed`, and reports the end of
// the piece by decrementing `unfinished`. Nothing else in the slot changes between submit() and the poll() that reports
// the job. A late worker may find another job in the slot. The worker then executes a piece of that job, or finds no
// piece.
//
// The end of a job wakes the owner as a message does. The worker that completes the last piece writes `unfinished`, and
// then rings the doorbell if no thread polls (ring_if_needed). A thread that is about to sleep announces the sleep, and
// then reads `unfinished` once more. All these accesses are sequentially consistent: see doorbell.h and
// docs/inside/threading.md.
#pragma once

#include <array>
#include <atomic>
#include <chrono>

#include "libsched/engine/lane.h"
#include "libsched/transport/doorbell.h"

namespace lsched {

class job_board {
 public:
  /// `bell` is the doorbell that wakes the engine's owner. It must stay valid until close() has returned.
  explicit job_board(doorbell& bell) : bell_(bell) {}
  job_board(const job_board&) = delete;
  job_board& operator=(const job_board&) = delete;

  // --- the engine's owner: described in libsched/engine/lane.h --------------------------------------------------

  /// Returns the number of pieces, or 0 if the job is refused because all slots are taken.
  std::uint64_t submit(const lane_job& job);
  std::size_t poll(std::span<std::uint64_t> out);
  bool help();
  void drain();

  /// Waits for every job and for every worker inside serve(). submit() must not be called afterwards. A worker that
  /// enters serve() later finds no piece and does not access the jobs or the doorbell, so both may be destroyed.
  void close();

  // --- workers ----------------------------------------------------------------------------------------------------

  /// Executes pieces until all pieces are claimed. Any number of threads may call this function, even after close().
  void serve();

 private:
  static constexpr std::size_t k_jobs = 16;
  static constexpr std::uint64_t k_piece_bytes = 128 << 10;  // bytes of one operand; a piece takes about 10 µs

  enum class outcome : std::uint8_t { none, did_piece, ended_job };

  struct alignas(64) slot {
    std::atomic<std::uint64_t> unclaimed{0};   ///< number of pieces that no thread has claimed
    std::atomic<std::uint64_t> unfinished{0};  ///< number of pieces that are not complete
    lane_job what{};
    std::uint64_t pieces = 0;
    std::uint64_t in_piece = 0;  ///< number of elements of a piece; the last piece may have fewer
    bool is_taken = false;       ///< submitted and not yet reported; used by the owner only
  };

  static outcome do_piece(slot& from);

  doorbell& bell_;
  std::atomic<std::uint32_t> serving_{0};
  std::array<slot, k_jobs> slots_;
};

/// A board with shared ownership: the owner and every requested worker hold a reference, because a worker may start
/// late. Must be created by new; the last reference deletes the board.
class shared_job_board final : public job_board {
 public:
  using job_board::job_board;

  /// Adds a reference for a worker. The owner calls this function before each request for a worker.
  void expect_worker();

  /// Executes pieces (serve), then drops the worker's reference. The worker calls this function once.
  void work();

  /// Waits, at most for `limit`, until every requested worker has dropped its reference. The owner calls this function
  /// after close(), so that no worker is left at the end of the process.
  void await_workers(std::chrono::nanoseconds limit) const;

  /// Drops the owner's reference. The owner calls this function once, after close().
  void let_go();

 private:
  ~shared_job_board() = default;

  std::atomic<std::uint32_t> holders_{1};
};

}  // namespace lsched
