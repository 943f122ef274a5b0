// Who reads memory that its owner may take back: the receiver of a payload that lies in the sender's memory, against a
// rank that gives the instance up.
//
//     receiver                                          a rank that gives up
//       R1 claim = round                                  G1 cancelled = (instance, rank)
//       R2 read cancelled: is it this instance? then R4   G2 read the claims of all its edges
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

/// Which of the instances that use this place (their ids are equal modulo shm_page::k_ids) was given up last, and by
/// whom. Any rank writes.
class shm_cancelled {
 public:
  /// Who is first stays on record.
  void record(std::uint32_t id, rank by) {
    std::uint64_t known = word_.load();
    while (!is_of(known, id) && !word_.compare_exchange_weak(known, number_of(id) | (static_cast<std::uint32_t>(by)))) {
    }
  }

  bool holds(std::uint32_t id) const { return is_of(word_.load(), id); }

  /// k_no_rank: it was not given up.
  rank by(std::uint32_t id) const {
    const std::uint64_t known = word_.load();
    return is_of(known, id) ? static_cast<rank>(static_cast<std::uint32_t>(known)) : k_no_rank;
  }

 private:
  static constexpr std::uint64_t number_of(std::uint32_t id) { return (std::uint64_t{id} + 1) << 32; }
  static constexpr bool is_of(std::uint64_t word, std::uint32_t id) {
    return word >> 32 == static_cast<std::uint32_t>(number_of(id) >> 32);
  }

  std::atomic<std::uint64_t> word_;  ///< 0: none
};

/// Of one edge: whether its receiver reads the sender's memory. The receiver alone writes, and the sender reads when it
/// gives up: a line of its own, which stays at the receiver's core.
class alignas(64) shm_claim {
 public:
  /// Before a payload is read. False: the instance was given up, and the payload may be gone.
  bool take(std::uint64_t round, const shm_cancelled& given_up, std::uint32_t id) {
    round_.store(round);
    if (!given_up.holds(id)) return true;
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
