// The times at which the application called for its latest rounds. The application writes these times and the engine
// reads them, without locks.
//
// The times are in a ring buffer, and `last_` is the round of the newest time. The reader first loads a time and then
// `last_`. The value of `last_` shows whether the writer may have overwritten this time. If the writer had already
// overwritten the time of round t, the acquire and release operations ensure that the reader sees a `last_` of at least
// t + k_kept - 1.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "libsched/transport/endpoint.h"

namespace lsched {

class call_times {
 public:
  static constexpr round_no k_kept = 1024;

  /// Application: records a call at `now_ns` for `round`, and for all earlier rounds without a call.
  void note(round_no round, std::uint64_t now_ns) {
    for (round_no next = last_.load(std::memory_order_relaxed) + 1; next <= round; ++next) {
      times_[next % k_kept].store(now_ns, std::memory_order_release);
      last_.store(next, std::memory_order_release);
    }
  }

  /// Engine: returns the last round for which the application has called.
  round_no last() const { return last_.load(std::memory_order_acquire); }

  /// Engine: returns the time of the call for `round`, or nothing if a later call may have overwritten that time.
  /// `round` must not exceed last().
  std::optional<std::uint64_t> of(round_no round) const {
    const std::uint64_t time_ns = times_[round % k_kept].load(std::memory_order_acquire);
    if (last() + 1 >= round + k_kept) return std::nullopt;  // the next call may be overwriting this time
    return time_ns;
  }

  /// Any thread: returns the median time between successive calls, over the last 64 rounds at most. Returns nothing if
  /// fewer than 8 such times exist. A call for several rounds counts once.
  std::optional<std::uint64_t> median_between() const {
    constexpr std::size_t k_most = 64;
    constexpr std::ptrdiff_t k_least = 8;
    const round_no newest = last();
    std::array<std::uint64_t, k_most> between{};
    auto end = between.begin();
    for (round_no i = newest; i > 1 && i + k_most > newest; --i) {
      const auto later = of(i), earlier = of(i - 1);
      if (!later || !earlier) break;  // calls of another thread may have overwritten these times
      if (*later != *earlier) *end++ = *later - *earlier;
    }
    if (end - between.begin() < k_least) return std::nullopt;
    const auto middle = between.begin() + (end - between.begin()) / 2;
    std::nth_element(between.begin(), middle, end);
    return *middle;
  }

 private:
  std::array<std::atomic<std::uint64_t>, k_kept> times_{};
  std::atomic<round_no> last_{0};
};

}  // namespace lsched
