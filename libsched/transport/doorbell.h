// Sleeping and waking: one doorbell per rank, in memory that every local peer can see.
//
// The threads of a rank that wait for messages sleep on `word` of one of two bells: `waiter` (application
// threads inside a wait) and `auxiliary` (the progress thread). A sender publishes its message, then asks
// whether anybody there is awake to see it, and rings only if not.
//
// Why no wake-up is lost (every access named here is sequentially consistent, but for S1, a release):
//
//     sender                          receiver going to sleep
//     ------                          -----------------------
//     S1 message stamps = round       R1 read word (the epoch)
//     S2 a fence                      R2 polling = 0, announce (sleepers += 1 or wanted = 1)
//     S3 read polling, sleepers       R3 poll once more
//     S4 if nobody polls and          R4 release the engine
//        somebody sleeps:             R5 futex_wait(word, epoch of R1)
//        word += 1, wake
//
// In the single total order either S3 comes before R2, then the fence comes before R3 and the poll sees the message;
// or S3 sees the announcement, then S4 changes the word and R5 returns at once or is woken. Without the fence
// between S1 and S3 (store buffers!) both could look away at the same time. One fence serves any number of messages
// and bells: a fence waits for the lines of everything written before it, so a sender publishes all it has to say,
// and looks at the bells (`ringer`) when it is through, before it sleeps or lets go.
//
// A sleeper may take its announcement back without having slept; a sender may already have counted on it. So whoever
// takes back `sleepers` polls once more, or rings, before it goes its way.
//
// The words are single-writer or changed by one atomic instruction: a process that dies at any point leaves
// nothing locked.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

namespace lsched {

/// Lives in shared memory; all zeroes is a valid, silent doorbell.
struct alignas(64) doorbell {
  enum side : std::uint32_t { waiter = 0, auxiliary = 1 };

  std::atomic<std::uint32_t> word[2];   ///< futex words; they only grow
  std::atomic<std::uint32_t> sleepers;  ///< application threads that sleep, or are about to
  std::atomic<std::uint32_t> wanted;    ///< the auxiliary thread should hear of messages (set by the engine's owner)
  std::atomic<std::uint32_t> polling;   ///< the engine's owner looks at every message by itself
};

/// Looks at one bell and rings it if nobody would see what was published before, and followed by a sequentially
/// consistent fence. Any thread of any local process; never blocks.
void ring_if_needed(doorbell& bell);

/// The bells a sender owes a look, because it has published something for their owners. One thread at a time.
class ringer {
 public:
  /// Peers are numbers below `peers`.
  explicit ringer(std::size_t peers) : is_owed_(peers) { owed_.reserve(peers); }

  /// Something was published for this peer, with release stores or stronger.
  void owe(std::size_t peer, doorbell& bell) {
    if (is_owed_[peer] != 0) return;
    is_owed_[peer] = 1;
    owed_.push_back({&bell, peer});
  }

  /// One fence, then a look at every bell owed; rings where nobody would see the messages. Waits a moment for peers
  /// that may be back before they could be woken.
  void settle();
  bool is_settled() const { return owed_.empty(); }

 private:
  struct debt {
    doorbell* bell;
    std::size_t peer;
  };
  bool has_absent_peer() const;

  std::vector<std::uint8_t> is_owed_;  ///< by peer
  std::vector<debt> owed_;
};

/// Wakes sleepers of one side whether or not they want it: for hand-over inside a process.
void ring(doorbell& bell, doorbell::side side, int sleepers = 1);

/// Sleeps until the word leaves `epoch` or the timeout passes. Spurious returns are allowed.
void sleep_on(doorbell& bell, doorbell::side side, std::uint32_t epoch, std::chrono::nanoseconds timeout);

/// Lets the core rest for some ten nanoseconds, so that its other hardware thread gets on: between two looks at a word
/// that another core is about to write. Does nothing on other processors.
inline void cpu_relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");  // `yield` is over at once on most cores
#endif
}

}  // namespace lsched
