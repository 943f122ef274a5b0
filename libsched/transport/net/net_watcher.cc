#include "libsched/transport/net/net_watcher.h"

namespace lsched {

void net_watcher::arm() {
  if (bell_->direct.load() != 0) return;  // bytes wake the claimant
  if (armed_.exchange(true)) return;
  enable();
}

void net_watcher::watch() {
  while (await_sockets()) {
    armed_.store(false);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    ring_if_needed(*bell_);
  }
}

// No other thread claims between the two accesses, because only the engine's owner claims.
bool net_watcher::claim() {
  if (bell_->direct.load() != 0) return false;
  bell_->direct.store(static_cast<std::uint32_t>(event_.get()) + 1);
  return true;
}

// The first wait may end because of an old ring, so that the thread waits once more.
void net_watcher::sleep(std::uint32_t epoch, std::chrono::nanoseconds timeout) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
  timespec left{.tv_sec = seconds.count(), .tv_nsec = (timeout - seconds).count()};
  for (int waits = 0; waits < 2; ++waits)
    if (bell_->word[doorbell::waiter].load() != epoch || !await_bytes(left)) return;
}

void net_watcher::end() { bell_->direct.store(0); }

}  // namespace lsched
