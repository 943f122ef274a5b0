// Sleeping and waking: one doorbell per rank, in memory that every local peer can see.
//
// The threads of a rank that wait for messages sleep on `word` of one of two bells: `waiter` (application
// threads inside a wait) and `auxiliary` (the progress thread). A sender publishes its message, then asks
// whether anybody there is awake to see it, and rings only if not.
//
// Why no wake-up is lost (every access named here is sequentially consistent):
//
//     sender                          receiver going to sleep
//     ------                          -----------------------
//     S1 message stamp = round        R1 read word (the epoch)
//     S2 read polling, sleepers       R2 polling = 0, announce (sleepers += 1 or wanted = 1)
//     S3 if nobody polls and          R3 poll once more
//        somebody sleeps:             R4 release the engine
//        word += 1, wake              R5 futex_wait(word, epoch of R1)
//
// In the single total order either S2 comes before R2, then S1 comes before R3 and the poll sees the message;
// or S2 sees the announcement, then S3 changes the word and R5 returns at once or is woken. Without the fence
// between S1 and S2 (store buffers!) both could look away at the same time. An exchange is that fence: x86
// pays for one locked instruction, and thread sanitizers understand it.
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

namespace lsched {

/// Lives in shared memory; all zeroes is a valid, silent doorbell.
struct alignas(64) doorbell {
  enum side : std::uint32_t { waiter = 0, auxiliary = 1 };

  std::atomic<std::uint32_t> word[2];   ///< futex words; they only grow
  std::atomic<std::uint32_t> sleepers;  ///< application threads that sleep, or are about to
  std::atomic<std::uint32_t> wanted;    ///< the auxiliary thread should hear of messages (set by the engine's owner)
  std::atomic<std::uint32_t> polling;   ///< the engine's owner looks at every message by itself
};

/// Sender's side, after its message is visible. Any thread of any local process; never blocks.
void ring_if_needed(doorbell& bell);

/// Wakes sleepers of one side whether or not they want it: for hand-over inside a process.
void ring(doorbell& bell, doorbell::side side, int sleepers = 1);

/// Sleeps until the word leaves `epoch` or the timeout passes. Spurious returns are allowed.
void sleep_on(doorbell& bell, doorbell::side side, std::uint32_t epoch, std::chrono::nanoseconds timeout);

}  // namespace lsched
