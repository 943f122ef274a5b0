// The protocol between a receiver that reads a payload in the sender's memory, and a sender that takes this memory back
// because the sender's instance has failed or was cancelled. "closed" is the end_word in the sender's block
// (shm_edge.h).
//
//     receiver                                          sender, or another rank that cancels
//       R1 claim = round                                  G1 closed = reason, in the sender's block
//       R2 read closed; if it is set, go to R4            sender alone:
//       R3 read the payload                               G2 read the claims of all outgoing edges
//       R4 claim = 0                                      G3 if none is held, the memory is the caller's again
//
// R1, R2, G1 and G2 are sequentially consistent. If R2 comes after G1, the payload is not read. Otherwise G2 comes
// after R1, and the sender sees the claim until R4. tests/models explores both sides.
#pragma once

#include <atomic>
#include <cstdint>

#include "libsched/transport/endpoint.h"

namespace lsched {

/// The reason why a rank's end of an instance is closed to readers. Any member may record a reason. The first reason is
/// kept.
class end_word {
 public:
  /// Records the reason unless a reason is already recorded. Returns the recorded reason.
  end_reason record(const end_reason& reason) {
    std::uint32_t open = 0;
    word_.compare_exchange_strong(open, reason.packed());
    return this->reason();
  }

  bool is_set() const { return word_.load() != 0; }

  /// Returns the reason. The word must be set.
  end_reason reason() const { return end_reason::unpack(word_.load()); }

 private:
  std::atomic<std::uint32_t> word_;  ///< 0: open
};

/// The claim of an edge's receiver on the sender's memory. Only the receiver writes the claim, and the sender reads the
/// claim only if the sender's instance ends early. So the claim has its own cache line, which stays with the receiver's
/// core.
class alignas(64) shm_claim {
 public:
  /// Claims the payload before it is read. Returns false if the sender's end is closed, because the payload may be
  /// gone.
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
  std::atomic<std::uint64_t> round_;  ///< the round whose payload is being read; 0: none
};

}  // namespace lsched
