// The idle strategy of a thread between two polls that found nothing.
//
// A wake-up costs about 2 µs on the same core and 20 µs on another core. A spinning thread takes the core from other
// threads. So a thread spins while cores are free, then yields for a moment, then sleeps.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace lsched {

enum class idle_mode : std::uint8_t { automatic, spin, yield, park };

/// The time for which an idle thread spins, and then the time for which it yields, before it sleeps. `forever`: without
/// a limit.
///
/// If ranks share cores, a yield lasts as long as other threads have work. Such a yield costs the waiter nothing.
/// Sleeping instead would cost the waiter two context switches and its peer a system call. So on shared cores the
/// number of yields is limited to `turns`. Because other threads may compute for long, the yields also end after an
/// idle time of `patience`.
struct idle_policy {
  static constexpr std::chrono::nanoseconds forever = std::chrono::nanoseconds::max();
  std::chrono::nanoseconds spin{0};
  std::chrono::nanoseconds yield{0};
  std::uint32_t turns = 0;
  std::chrono::nanoseconds patience{0};
  /// True: while all ranks compute, no core is left for progress threads.
  bool are_cores_taken = false;
  /// True: the thread sleeps at once if other programs use its core (core_sharing).
  bool gives_way = false;

  /// Returns whether the thread yields after every poll that finds nothing.
  bool is_crowded() const { return spin == std::chrono::nanoseconds(0); }
};

/// Detects that other programs use the core on which a thread polls.
///
/// Consecutive polls that find nothing are microseconds apart. If a poll comes a millisecond after the previous poll,
/// another program has used the core meanwhile. On such a core, a thread that spins or yields uses up its time slice,
/// and then waits while other programs use whole time slices. A thread that has slept gets the core as soon as a
/// message wakes the thread. So the thread pauses polling, and then tries to poll again. The pause is 20 times as long
/// as the time that was lost, so tries cost about 5 % of the time.
class core_sharing {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::nanoseconds k_lost_core{std::chrono::milliseconds(1)};
  static constexpr std::chrono::nanoseconds k_longest_pause{std::chrono::seconds(2)};
  static constexpr int k_pause_per_loss = 20;

  /// Records a poll at `now` that has found nothing, `since_last_look` after the previous such poll.
  void note_look(time_point now, std::chrono::nanoseconds since_last_look) {
    if (since_last_look >= k_lost_core) until_ = now + std::min(since_last_look * k_pause_per_loss, k_longest_pause);
  }

  bool is_shared(time_point now) const { return now < until_; }

 private:
  time_point until_{};
};

/// Parses "auto", "spin", "yield" or "park"; returns nothing for any other text.
std::optional<idle_mode> parse_idle_mode(std::string_view text);

/// Returns the policy for `local_ranks` ranks that share `cores` cores.
idle_policy make_idle_policy(idle_mode mode, unsigned local_ranks, unsigned cores);

/// Idles for one step: spins, or yields and increments `yields`. `idle_for` is the time since the thread became idle,
/// and `yields` the number of yields in this time. Returns false if the thread should sleep.
bool idle_once(const idle_policy& policy, std::chrono::nanoseconds idle_for, std::uint32_t& yields);

}  // namespace lsched
