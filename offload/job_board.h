// The jobs of a lane, cut into pieces that any thread may take: the engine's owner puts them up and hears of their end,
// workers do pieces, and so does the owner when nothing else is to be done.
//
// A piece is taken from `unclaimed` and given back as done in `unfinished`; nothing else of a slot changes between
// submit() and the poll() that reports its job. So a worker that comes late, after its job has ended and the slot has
// been given to another, finds either nothing to take or a piece of that other job, and both are right.
//
// The end of a job crosses to the owner like a message: whoever finishes the last piece writes `unfinished`, then asks
// whether anybody looks (ring_if_needed); who goes to sleep announces it, then reads `unfinished` once more. All of
// that is sequentially consistent, see doorbell.h and docs/inside/threading.md.
#pragma once

#include <array>
#include <atomic>
#include <chrono>

#include "libsched/engine/lane.h"
#include "libsched/transport/doorbell.h"

namespace lsched {

class job_board {
 public:
  /// `bell` is rung for the engine's owner. Outlives close().
  explicit job_board(doorbell& bell) : bell_(bell) {}
  job_board(const job_board&) = delete;
  job_board& operator=(const job_board&) = delete;

  // --- the engine's owner: as libsched/engine/lane.h says
  // --------------------------------------------------------------

  /// The number of pieces; 0: refused, all slots are taken.
  std::uint64_t submit(const lane_job& job);
  std::size_t poll(std::span<std::uint64_t> out);
  bool help();
  void drain();

  /// Waits for every job, and for every worker that is inside of serve(). Without another submit(), a worker that comes
  /// later finds nothing to do, and so touches neither jobs nor bell.
  void close();

  // --- workers ----------------------------------------------------------------------------------------------------

  /// Does pieces until there is none that nobody has begun. Any thread, several at once, also after close().
  void serve();

 private:
  static constexpr std::size_t k_jobs = 16;
  static constexpr std::uint64_t k_piece_bytes = 128 << 10;  // of one operand: some ten microseconds

  enum class outcome : std::uint8_t { none, did_piece, ended_job };

  struct alignas(64) slot {
    std::atomic<std::uint64_t> unclaimed{0};   ///< pieces that nobody has begun
    std::atomic<std::uint64_t> unfinished{0};  ///< pieces that are not done
    lane_job what{};
    std::uint64_t pieces = 0;
    std::uint64_t in_piece = 0;  ///< elements; the last piece may have fewer
    bool is_taken = false;       ///< the owner's: not reported yet
  };

  static outcome do_piece(slot& from);

  doorbell& bell_;
  std::atomic<std::uint32_t> serving_{0};  ///< workers inside of serve()
  std::array<slot, k_jobs> slots_;
};

/// A board that lives until its owner, and every worker that he has called, have let go: a call may reach its worker
/// late. On the heap, always.
class shared_job_board final : public job_board {
 public:
  using job_board::job_board;

  /// The owner, before each call goes out.
  void expect_worker();

  /// The worker that was called: serves and lets go.
  void work();

  /// The owner, after close(): until every worker that was called has come and gone, at most so long. Who closes at the
  /// end of a process leaves nothing behind then.
  void await_workers(std::chrono::nanoseconds limit) const;

  /// The owner, once, after close().
  void let_go();

 private:
  ~shared_job_board() = default;

  std::atomic<std::uint32_t> holders_{1};
};

}  // namespace lsched
