// What a thread does between two polls that found nothing.
//
// A wake-up costs about 2 µs on the same core and 20 µs on another, a spinning thread costs whoever needs the
// core. So: spin while cores are free, yield for a moment, then sleep.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace lsched {

enum class idle_mode : std::uint8_t { automatic, spin, yield, park };

/// How long to spin, then how long to yield, before going to sleep. A limit of `forever` never ends.
///
/// Where ranks share cores, a yield lasts as long as others have something to do. That costs the waiter nothing, and
/// going to sleep meanwhile would cost it two switches and its peer a system call, so there time is not the measure: it
/// goes on until it has yielded `turns` times, unless even that takes `patience` because somebody computes.
struct idle_policy {
  static constexpr std::chrono::nanoseconds forever = std::chrono::nanoseconds::max();
  std::chrono::nanoseconds spin{0};
  std::chrono::nanoseconds yield{0};
  std::uint32_t turns = 0;
  std::chrono::nanoseconds patience{0};
  /// While all ranks compute no core is left for their progress threads.
  bool are_cores_taken = false;
  /// While other programs use the core (core_sharing), the thread sleeps at once.
  bool gives_way = false;

  /// Whether every look that finds nothing is followed by a yield.
  bool is_crowded() const { return spin == std::chrono::nanoseconds(0); }
};

/// Detects that other programs use the core on which a thread polls.
///
/// Two looks that find nothing follow each other within microseconds. If a look comes a millisecond after the last one,
/// another program has had the core meanwhile. Then a thread that spins or yields uses up its time slice and waits for
/// whole slices of others, whereas a thread that has slept gets the core as soon as a message wakes it. So the thread
/// does not poll for a while, and then tries again. That while is long enough for tries to cost 5 % of the time.
class core_sharing {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::nanoseconds k_lost_core{std::chrono::milliseconds(1)};
  static constexpr std::chrono::nanoseconds k_longest_pause{std::chrono::seconds(2)};
  static constexpr int k_pause_per_loss = 20;

  /// A look at `now` has found nothing, like the look before, which was so long ago.
  void note_look(time_point now, std::chrono::nanoseconds since_last_look) {
    if (since_last_look >= k_lost_core) until_ = now + std::min(since_last_look * k_pause_per_loss, k_longest_pause);
  }

  bool is_shared(time_point now) const { return now < until_; }

 private:
  time_point until_{};
};

/// "auto", "spin", "yield", "park"; nothing for any other text.
std::optional<idle_mode> parse_idle_mode(std::string_view text);

/// The policy for `local_ranks` ranks that share `cores` cores.
idle_policy make_idle_policy(idle_mode mode, unsigned local_ranks, unsigned cores);

/// One step of idling for somebody who has idled for so long and yielded that often. False: time to sleep.
bool idle_once(const idle_policy& policy, std::chrono::nanoseconds idle_for, std::uint32_t& yields);

}  // namespace lsched
