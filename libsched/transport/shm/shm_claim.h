// A receiver may read a payload in the sender's memory. A sender withdraws this memory if its instance has failed or
// was cancelled. The following protocol prevents the sender from reusing the memory while the receiver reads it.
// `closed` is the end_word in the sender's block (shm_edge.h).
//
//     receiver                                          sender, or another rank that cancels
//       R1 claim = round                                  G1 closed = reason, in the sender's block
//       R2 read closed; if it is set, go to R4            sender alone:
//       R3 read the payload                               G2 read the claims of all outgoing edges
//       R4 claim = 0                                      G3 if no claim is held, the caller may reuse the memory
//
// R1, R2, G1 and G2 are sequentially consistent. If R2 comes after G1, the receiver does not read the payload.
// Otherwise G2 comes after R1, so the sender finds the claim until R4. tests/models explores all interleavings.
#pragma once

#include <atomic>
#include <cstdint>

#include "libsched/transport/endpoint.h"

namespace lsched {

/// The reason why peers must no longer read a rank's memory for an instance. Any member may record a reason; the first
/// reason is kept.
class end_word {
 public:
  /// Records `reason` unless a reason is already recorded. Returns the recorded reason.
  end_reason record(const end_reason& reason) {
    std::uint32_t open = 0;
    word_.compare_exchange_strong(open, reason.packed());
    return this->reason();
  }

  bool is_set() const { return word_.load() != 0; }

  /// Returns the reason. A reason must have been recorded.
  end_reason reason() const { return end_reason::unpack(word_.load()); }

 private:
  std::atomic<std::uint32_t> word_;  ///< packed reason; 0: no reason is recorded
};

/// The claim of an edge's receiver on the sender's memory. Only the receiver writes the claim. The sender reads the
/// claim only if the sender's instance ends early. So the claim has its own cache line, which usually stays with the
/// receiver's core.
class alignas(64) shm_claim {
 public:
  /// Claims the payload; must be called before the payload is read. Returns false if `closed` is set, because the
  /// sender may have withdrawn the payload.
  bool take(std::uint64_t round, const end_word& closed) {
    round_.store(round);
    if (!closed.is_set()) return true;
    let_go();
    return false;
  }

  /// Releases the claim after the last read of the payload.
  void let_go() { round_.store(0, std::memory_order_release); }

  bool is_held() const { return round_.load() != 0; }

 private:
  std::atomic<std::uint64_t> round_;  ///< round whose payload the receiver reads; 0: no claim
};

}  // namespace lsched
