// The jobs of a lane (a pool of threads for arithmetic, libsched/engine/lane.h). Jobs are cut into pieces that any
// thread may execute. The engine's owner submits jobs and polls for completed jobs. Workers execute pieces, and so does
// the owner when it has nothing else to do.
//
// Each job is in a slot. A thread claims a piece in the slot's counter `unclaimed`, and reports the completed piece in
// the counter `unfinished`. Nothing else in the slot changes between submit() and the poll() that reports the job. A
// worker may arrive late, after its job has ended and the slot holds another job. The worker then finds either no piece
// or a piece of that other job, and both are correct.
//
// The end of a job reaches the owner like a message. The worker that completes the last piece writes `unfinished`, then
// checks whether any thread polls (ring_if_needed). A thread that is about to sleep announces the sleep, then reads
// `unfinished` once more. All these accesses are sequentially consistent: see doorbell.h and docs/inside/threading.md.
#pragma once

#include <array>
#include <atomic>
#include <chrono>

#include "libsched/engine/lane.h"
#include "libsched/transport/doorbell.h"

namespace lsched {

class job_board {
 public:
  /// `bell` wakes the engine's owner. The bell must stay valid until close() has returned.
  explicit job_board(doorbell& bell) : bell_(bell) {}
  job_board(const job_board&) = delete;
  job_board& operator=(const job_board&) = delete;

  // --- the engine's owner: the contract is libsched/engine/lane.h --------------------------------------------------

  /// Returns the number of pieces. 0: the job was refused, because all slots are taken.
  std::uint64_t submit(const lane_job& job);
  std::size_t poll(std::span<std::uint64_t> out);
  bool help();
  void drain();

  /// Waits for every job and for every worker inside serve(). If no submit() follows, a worker that enters serve()
  /// later finds no piece, and so touches neither jobs nor bell.
  void close();

  // --- workers ----------------------------------------------------------------------------------------------------

  /// Executes pieces until all pieces are claimed. Any thread, several threads at once, also after close().
  void serve();

 private:
  static constexpr std::size_t k_jobs = 16;
  static constexpr std::uint64_t k_piece_bytes = 128 << 10;  // bytes of one operand; a piece takes about 10 µs

  enum class outcome : std::uint8_t { none, did_piece, ended_job };

  struct alignas(64) slot {
    std::atomic<std::uint64_t> unclaimed{0};   ///< pieces that no thread has begun
    std::atomic<std::uint64_t> unfinished{0};  ///< unclaimed or running pieces
    lane_job what{};
    std::uint64_t pieces = 0;
    std::uint64_t in_piece = 0;  ///< number of elements in a piece; the last piece may have fewer
    bool is_taken = false;       ///< submitted and not yet reported; used by the owner only
  };

  static outcome do_piece(slot& from);

  doorbell& bell_;
  std::atomic<std::uint32_t> serving_{0};
  std::array<slot, k_jobs> slots_;
};

/// A board with shared ownership: the owner and every requested worker hold a reference, because a worker may start
/// late. Create the board with new: the last reference deletes the board.
class shared_job_board final : public job_board {
 public:
  using job_board::job_board;

  /// Adds a reference for a worker. The owner calls this function before each request for a worker.
  void expect_worker();

  /// Executes pieces (serve), then drops the worker's reference. Called by the worker.
  void work();

  /// Waits, at most for `limit`, until every requested worker has dropped its reference. Called by the owner after
  /// close(), so that no worker is left at the end of the process.
  void await_workers(std::chrono::nanoseconds limit) const;

  /// Drops the owner's reference. Called once, after close().
  void let_go();

 private:
  ~shared_job_board() = default;

  std::atomic<std::uint32_t> holders_{1};
};

}  // namespace lsched
