// Ranks use doorbells to sleep and to wake each other. Each rank has one doorbell, in memory that every local peer
// maps.
//
// A doorbell has two bells, which are futex words. Application threads that wait for messages sleep on the bell
// `waiter`. The progress thread sleeps on the bell `auxiliary`. A sender publishes its message and then rings a bell of
// the receiver: the sender changes the word and wakes a thread. The sender does not ring if a thread of the receiver is
// polling.
//
// The following proves that no wake-up is lost. All accesses are sequentially consistent, except for S1, which is a
// release store.
//
//     sender                          receiver going to sleep
//     ------                          -----------------------
//     S1 message stamps = round       R1 read word (the epoch)
//     S2 a fence                      R2 polling = 0, announce (sleepers += 1 or wanted = 1)
//     S3 read polling, sleepers       R3 poll once more
//     S4 if no thread polls and       R4 release the engine
//        a thread sleeps:             R5 futex_wait(word, epoch of R1)
//        word += 1, wake
//
// If S3 precedes R2 in the single total order, the fence precedes R3, and the poll finds the message. Otherwise S3
// reads the announcement, S4 changes the word, and R5 returns at once or is woken. Without the fence between S1 and S3,
// S3 could read the old values while the message is still in a store buffer. R3 would then not find the message.
//
// One fence suffices for any number of messages and bells. So a sender first publishes all its messages. Before the
// sender sleeps or releases the engine, it executes one fence and checks the bells (`ringer`).
//
// A sender may ring for a thread that has announced its sleep, but does not sleep in the end. So a thread that
// decrements `sleepers` must poll once more, or ring the bell for another thread, before it continues.
//
// Each word has a single writer or is changed by one atomic instruction, so a dying process never leaves a lock behind.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

namespace lsched {

/// The two bells of a rank, in shared memory. Memory of zeros is a valid doorbell without sleepers.
struct alignas(64) doorbell {
  enum side : std::uint32_t { waiter = 0, auxiliary = 1 };

  std::atomic<std::uint32_t> word[2];   ///< futex words, which only grow
  std::atomic<std::uint32_t> sleepers;  ///< number of application threads that sleep or are about to sleep
  std::atomic<std::uint32_t> wanted;   ///< 1: the progress thread must be woken for messages; set by the engine's owner
  std::atomic<std::uint32_t> polling;  ///< 1: the engine's owner polls for messages
  /// While a thread has a claim (direct_sleep.h), the number of an eventfd plus 1. Otherwise, and always in shared
  /// memory, 0.
  std::atomic<std::uint32_t> direct;
};

/// Returns true if no thread polls and a thread has announced that it will sleep.
inline bool has_sleeper(const doorbell& bell) {
  return bell.polling.load() == 0 && (bell.sleepers.load() != 0 || bell.wanted.load() != 0);
}

/// Rings a bell if a thread of the receiver sleeps and no thread of the receiver polls. The caller must have published
/// its messages and then executed a sequentially consistent fence. Any thread of any local process may call this
/// function, which never blocks.
void ring_if_needed(doorbell& bell);

/// Collects the bells that a sender must check after it has published messages. Only one thread at a time may use an
/// object of this class.
class ringer {
 public:
  /// Peers are numbered from 0 to peers - 1.
  explicit ringer(std::size_t peers) : is_owed_(peers) { owed_.reserve(peers); }

  /// Notes the bell of a peer. A message for that peer must have been published by a release store or stronger.
  void owe(std::size_t peer, doorbell& bell) {
    if (is_owed_[peer] != 0) return;
    is_owed_[peer] = 1;
    owed_.push_back({&bell, peer});
  }

  /// Executes one fence, and then checks every noted bell as ring_if_needed() does. Before the checks, waits briefly
  /// for peers that will probably poll soon, because a polling peer needs no wake-up.
  void settle();
  bool is_settled() const { return owed_.empty(); }

 private:
  struct debt {
    doorbell* bell;
    std::size_t peer;
  };
  bool has_absent_peer() const;

  std::vector<std::uint8_t> is_owed_;  ///< by peer: 1 if the bell of the peer is in owed_
  std::vector<debt> owed_;
};

/// Wakes up to `sleepers` threads on one bell, and also a direct sleeper. Does not check whether any thread sleeps.
/// Used to hand the engine to another thread.
void ring(doorbell& bell, doorbell::side side, int sleepers = 1);

/// Sleeps until the word of `side` differs from `epoch` or the timeout passes. May return spuriously.
void sleep_on(doorbell& bell, doorbell::side side, std::uint32_t epoch, std::chrono::nanoseconds timeout);

/// Pauses the core for some tens of nanoseconds, between two reads of a word that another core is about to write.
/// Meanwhile, the core's other hardware thread can run. Does nothing on processors other than x86 and Arm.
inline void cpu_relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");  // `yield` returns at once on most cores
#endif
}

}  // namespace lsched
