// When the application called for its last rounds: it writes, the engine reads, and neither waits for the other.
//
// A ring of times and the round of the newest. The reader takes a time and then looks whether the writer may have come
// round to its place meanwhile; whoever reads the newer time also sees that.
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

  /// Application: calls now for `round`, and for those before it that it has not called for.
  void note(round_no round, std::uint64_t now_ns) {
    for (round_no next = last_.load(std::memory_order_relaxed) + 1; next <= round; ++next) {
      times_[next % k_kept].store(now_ns, std::memory_order_release);
      last_.store(next, std::memory_order_release);
    }
  }

  /// Engine: the last round that was called for.
  round_no last() const { return last_.load(std::memory_order_acquire); }

  /// Engine: of a round up to last(), unless so many were called for since that its time is gone.
  std::optional<std::uint64_t> of(round_no round) const {
    const std::uint64_t time_ns = times_[round % k_kept].load(std::memory_order_acquire);
    if (last() + 1 >= round + k_kept) return std::nullopt;  // the next one may be written in its place
    return time_ns;
  }

  /// Application: the median time between two of its last calls, up to 64; none before there were 8 such times. Rounds
  /// that a call has left out are no calls.
  std::optional<std::uint64_t> median_between() const {
    constexpr std::size_t k_most = 64;
    constexpr std::ptrdiff_t k_least = 8;
    const round_no newest = last_.load(std::memory_order_relaxed);
    std::array<std::uint64_t, k_most> between{};
    auto end = between.begin();
    for (round_no i = newest; i > 1 && i + k_most > newest; --i) {
      const std::uint64_t one = *of(i) - *of(i - 1);
      if (one != 0) *end++ = one;
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
