// A sleep in which a thread waits for its sockets itself. No other thread has to receive the bytes first and then ring.
//
// A claimant is the engine's owner that has claimed the sockets before its sleep. While a claim exists, no owner
// arms the watcher (net/net_watcher.h), because bytes wake the claimant. A ring wakes the claimant by an eventfd.
//
//     claimant                                    owner: the claimant before A4, or any later owner
//     --------                                    -------------------------------------------------
//     A1 read word (the epoch)                    O1 acquire the engine
//     A2 sleepers += 1; claim: direct = event     O2 polling = 0, announce (sleepers or wanted)
//     A3 poll once more (O2 to O4)                O3 read the sockets until they are empty
//     A4 release the engine                       O4 read direct; if 0: arm the watcher
//     A5 while word is still the epoch: wait      O5 release the engine
//        for the sockets or the eventfd
//     A6 sleepers -= 1; end: direct = 0
//     A7 acquire the engine, and poll or ring a   ringer
//        sleeper; if another thread owns the      ------
//        engine: shut_out = true and try again,   R1 word += 1
//        or announce a sleep on the futex         R2 read direct; if not 0: write the eventfd
//
// All accesses are sequentially consistent. Only the engine's owner claims, and only if `direct` is 0. So at most one
// thread has a claim. All other threads sleep on the futex, and a ring wakes both kinds of sleepers.
//
// A ring wakes the claimant. If R1 precedes the read of A5, the claimant does not sleep. Otherwise A2 precedes R2, so
// R2 finds the claim, unless the claimant is already awake. The eventfd stays readable, so R2 may precede the wait. The
// claimant reads the eventfd before the word, so no ring is lost with the count of the eventfd. Older rings may end
// waits of A5 without effect.
//
// Bytes wake the claimant, because the set of sockets is level-triggered. If another owner reads these bytes first, the
// claimant has slept for less time than necessary.
//
// No thread is forgotten when a claim ends. Because of a claim in O4, an owner may leave the watcher unarmed, although
// the owner has announced another thread. If the claimant then acquires the engine in A7, the claimant is the next
// owner, to which this proof applies. If A7 fails, another thread owns the engine:
//
//   * If that thread has acquired the engine after A6, its O4 does not find this claim.
//   * Otherwise that thread releases the engine after A7. After O5, each owner reads `sleepers` and `shut_out`, and
//     rings the claimant, or polls again by O2 to O4. An owner that sleeps without a claim reads `direct` after O5, and
//     does not sleep if `direct` is 0.
#pragma once

#include <chrono>
#include <cstdint>

namespace lsched {

/// The sockets of a rank, for a thread that sleeps. A transport implements this interface only if no other process
/// rings its doorbell.
class direct_sleep {
 public:
  virtual ~direct_sleep() = default;

  /// Claims the sockets for the calling thread (A2), which owns the engine. Returns false if another thread has a
  /// claim.
  virtual bool claim() = 0;

  /// Sleeps until a socket is ready, the doorbell's word `waiter` differs from `epoch`, or the timeout passes (A5). May
  /// return spuriously. Only the claimant calls this function, which is no cancellation point.
  virtual void sleep(std::uint32_t epoch, std::chrono::nanoseconds timeout) = 0;

  /// Ends the claim of the calling thread (A6). The caller must then try to acquire the engine (A7).
  virtual void end() = 0;
};

/// Makes an eventfd readable. Never blocks, and is no cancellation point.
void write_event(int event);

}  // namespace lsched
