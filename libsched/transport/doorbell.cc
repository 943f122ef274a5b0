#include "libsched/transport/doorbell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

#include "libsched/transport/direct_sleep.h"

namespace lsched {
namespace {

// Maximum number of times that a sender reads the peers' bells before it wakes their progress threads. All these reads
// together take 2.5 us. Waking a thread on another core takes four times as long.
constexpr int k_looks = 60;

// The futex is not FUTEX_PRIVATE, because several processes use the word.
void futex_wake(std::atomic<std::uint32_t>& word, int sleepers) {
  syscall(SYS_futex, &word, FUTEX_WAKE, sleepers, nullptr, nullptr, 0);
}

}  // namespace

void ring(doorbell& bell, doorbell::side side, int sleepers) {
  bell.word[side].fetch_add(1);
  futex_wake(bell.word[side], sleepers);
  if (side != doorbell::waiter) return;
  if (const std::uint32_t event = bell.direct.load(); event != 0) write_event(static_cast<int>(event - 1));
}

void ring_if_needed(doorbell& bell) {
  if (bell.polling.load() != 0) return;
  if (bell.sleepers.load() != 0)
    ring(bell, doorbell::waiter);
  else if (bell.wanted.load() != 0)
    ring(bell, doorbell::auxiliary);
}

namespace {

// ThreadSanitizer does not support stand-alone fences, and GCC warns about them. No data race depends on this fence:
// the stamp of a message is stored with release and loaded with acquire.
void fence() {
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtsan"
#endif
  std::atomic_thread_fence(std::memory_order_seq_cst);
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
}

}  // namespace

void ringer::settle() {
  if (owed_.empty()) return;
  fence();
  for (int looks = 0; looks < k_looks && has_absent_peer(); ++looks) cpu_relax();
  for (const debt& one : owed_) {
    is_owed_[one.peer] = 0;
    ring_if_needed(*one.bell);
  }
  owed_.clear();
}

// Returns true if a peer's application is outside of the library and the peer's progress thread sleeps. In a tight loop
// of rounds, such an application calls the library again before a woken thread could run.
bool ringer::has_absent_peer() const {
  return std::ranges::any_of(owed_, [](const debt& one) {
    return one.bell->polling.load() == 0 && one.bell->sleepers.load() == 0 && one.bell->wanted.load() != 0;
  });
}

void sleep_on(doorbell& bell, doorbell::side side, std::uint32_t epoch, std::chrono::nanoseconds timeout) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
  const timespec limit{.tv_sec = seconds.count(), .tv_nsec = (timeout - seconds).count()};
  syscall(SYS_futex, &bell.word[side], FUTEX_WAIT, epoch, &limit, nullptr, 0);
}

}  // namespace lsched
