// The idle strategy of a thread between two polls without progress.
//
// A wake-up takes about 2 µs on the same core and 20 µs on another core. But a spinning thread takes the core from
// other threads. So a thread spins while cores are free, then yields for a moment, then sleeps.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace lsched {

enum class idle_mode : std::uint8_t { automatic, spin, yield, park };

/// The times for which an idle thread first spins and then yields. After these times, the thread sleeps. `forever`
/// means without a limit.
///
/// If ranks share cores, a yield lets other threads run, and costs less than a sleep. A sleep needs two context
/// switches and a system call of the peer. So on shared cores, a thread sleeps after a number of yields (`turns`). The
/// thread also sleeps after an idle time (`patience`), because other threads may compute for long.
struct idle_policy {
  static constexpr std::chrono::nanoseconds forever = std::chrono::nanoseconds::max();
  std::chrono::nanoseconds spin{0};
  std::chrono::nanoseconds yield{0};
  std::uint32_t turns = 0;
  std::chrono::nanoseconds patience{0};
  /// True if no core is left for progress threads while all ranks compute.
  bool are_cores_taken = false;
  /// True if the thread sleeps at once when other programs use its core (core_sharing).
  bool gives_way = false;

  /// Returns true if the thread yields after every poll without progress.
  bool is_crowded() const { return spin == std::chrono::nanoseconds(0); }
};

/// Detects that other programs use the core on which a thread polls.
///
/// Consecutive idle polls are microseconds apart. If the time between two polls is a millisecond, another program has
/// used the core. On such a core, a thread that spins or yields uses up its time slice. The thread must then wait for
/// whole time slices of other programs. A thread that sleeps gets the core as soon as a message wakes it. So the thread
/// stops polling for a time and then tries again. This pause is 20 times the lost time (but at most 2 s), so the tries
/// cost about 5 %.
class core_sharing {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::nanoseconds k_lost_core{std::chrono::milliseconds(1)};
  static constexpr std::chrono::nanoseconds k_longest_pause{std::chrono::seconds(2)};
  static constexpr int k_pause_per_loss = 20;

  /// Records an idle poll at time `now`. `since_last_look` is the time since the previous idle poll.
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
