// The sockets of a rank for the explorer. The watcher (net_watcher.h) is the library's own code, except for its system
// calls, which this file replaces. one_rank.h includes this file.
#pragma once

#include "libsched/transport/net/net_watcher.h"

namespace lsched {
namespace {

/// The kernel's state of the sockets, the eventfd and the watcher's set. Threads wait for changes of the state.
class explored_sockets {
 public:
  static constexpr std::uint64_t k_bytes = 3;    ///< bit 0 or 1: the message of link 0 or 1 was not read yet
  static constexpr std::uint64_t k_event = 4;    ///< the eventfd is readable
  static constexpr std::uint64_t k_enabled = 8;  ///< the kernel reports the next bytes to the watcher

  void set(std::uint64_t bits) {
    state_.fetch_or(bits);
    models::futex(0, &state_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }

  /// Clears those of the bits that are set, and returns them. No other thread may clear these bits.
  std::uint64_t take(std::uint64_t bits) {
    const std::uint64_t found = state_.load() & bits;
    if (found != 0) state_.fetch_sub(found);
    return found;
  }

  /// Returns the state when the condition holds, or 0 when the deadline of an impatient thread has passed.
  template <class Condition>
  std::uint64_t wait(Condition holds) {
    for (;;) {
      const std::uint64_t now = state_.load();
      if (holds(now)) return now;
      models::futex(0, &state_, FUTEX_WAIT, static_cast<long>(now), nullptr, nullptr, 0);
      if (models::is_expired()) return 0;
    }
  }

  models::word* state_word() { return &state_; }

 private:
  std::atomic<std::uint64_t> state_{0};
};

explored_sockets* g_kernel = nullptr;  ///< the sockets of the world's only rank

}  // namespace
}  // namespace lsched

#include "libsched/transport/net/net_watcher.cc"  // planted bugs use the class above

namespace lsched {

void write_event(int) { g_kernel->set(explored_sockets::k_event); }

result<bool> net_watcher::start(int, doorbell& bell) {
  constexpr int k_any_number = 1 << 20;  // a number that no descriptor of the process has
  bell_ = &bell;
  event_ = descriptor(k_any_number);
  return true;
}

void net_watcher::stop() {}

void net_watcher::enable() { g_kernel->set(explored_sockets::k_enabled); }

bool net_watcher::await_sockets() {
  g_kernel->wait([](std::uint64_t now) {
    return (now & explored_sockets::k_enabled) != 0 && (now & explored_sockets::k_bytes) != 0;
  });
  g_kernel->take(explored_sockets::k_enabled);
  return true;
}

bool net_watcher::await_bytes(timespec&) {
  constexpr std::uint64_t k_both = explored_sockets::k_bytes | explored_sockets::k_event;
  const std::uint64_t now = g_kernel->wait([](std::uint64_t state) { return (state & k_both) != 0; });
  if ((now & explored_sockets::k_event) == 0) return false;
  if (models::planted != "reads_the_event_after_the_word"_bug) g_kernel->take(explored_sockets::k_event);
  return (now & explored_sockets::k_bytes) == 0;
}

}  // namespace lsched
