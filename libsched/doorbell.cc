#include "libsched/doorbell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>

namespace lsched {
namespace {

// Shared (not process-private) futexes: the word may be mapped at different addresses by different processes.
void futex_wake(std::atomic<std::uint32_t>& word, int sleepers) {
  syscall(SYS_futex, &word, FUTEX_WAKE, sleepers, nullptr, nullptr, 0);
}

}  // namespace

void ring(doorbell& bell, doorbell::side side, int sleepers) {
  bell.word[side].fetch_add(1);
  futex_wake(bell.word[side], sleepers);
}

void ring_if_needed(doorbell& bell) {
  if (bell.polling.load() != 0) return;
  if (bell.sleepers.load() != 0)
    ring(bell, doorbell::waiter);
  else if (bell.wanted.load() != 0)
    ring(bell, doorbell::auxiliary);
}

void sleep_on(doorbell& bell, doorbell::side side, std::uint32_t epoch, std::chrono::nanoseconds timeout) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
  const timespec limit{.tv_sec = seconds.count(), .tv_nsec = (timeout - seconds).count()};
  syscall(SYS_futex, &bell.word[side], FUTEX_WAIT, epoch, &limit, nullptr, 0);
}

}  // namespace lsched
