// Who reads memory that its owner may take back: the receiver of a payload that lies in the sender's memory, against a
// rank that gives the instance up.
//
//     receiver                                          a rank that gives up
//       R1 claim = round                                  G1 given up = by whom, in the sender's block
//       R2 read given up: is it set? then R4              G2 read the claims of all its edges
//       R3 read the payload                               G3 none is held: the memory is the caller's again
//       R4 claim = 0
//
// R1, R2, G1 and G2 are sequentially consistent: either R2 comes after G1, and the payload is not read, or G2 comes
// after R1, and sees the claim until R4. tests/models explores it.
#pragma once

#include <atomic>
#include <cstdint>

#include "libsched/transport/endpoint.h"

namespace lsched {

/// By whom an instance was given up. Any rank writes.
class shm_given_up {
 public:
  /// Answers who is on record: whoever was first.
  rank record(rank by) {
    std::int32_t nobody = 0;
    word_.compare_exchange_strong(nobody, by + 1);
    return this->by();
  }

  /// k_no_rank: it was not given up.
  rank by() const { return word_.load() - 1; }

 private:
  std::atomic<std::int32_t> word_;  ///< the rank, plus one
};
static_assert(k_no_rank == -1);

/// Of one edge: whether its receiver reads the sender's memory. The receiver alone writes, and the sender reads when it
/// gives up: a line of its own, which stays at the receiver's core.
class alignas(64) shm_claim {
 public:
  /// Before a payload is read. False: the instance was given up, and the payload may be gone.
  bool take(std::uint64_t round, const shm_given_up& given_up) {
    round_.store(round);
    if (given_up.by() == k_no_rank) return true;
    let_go();
    return false;
  }

  /// After it was read for the last time.
  void let_go() { round_.store(0, std::memory_order_release); }

  bool is_held() const { return round_.load() != 0; }

 private:
  std::atomic<std::uint64_t> round_;  ///< that is being read; 0: none
};

}  // namespace lsched
