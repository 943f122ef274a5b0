// What a thread does between two polls that found nothing.
//
// A wake-up costs about 2 µs on the same core and 20 µs on another, a spinning thread costs whoever needs the
// core. So: spin while cores are free, yield for a moment, then sleep.
#pragma once

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

  /// Whether every look that finds nothing is followed by a yield.
  bool is_crowded() const { return spin == std::chrono::nanoseconds(0); }
};

/// "auto", "spin", "yield", "park"; nothing for any other text.
std::optional<idle_mode> parse_idle_mode(std::string_view text);

/// The policy for `local_ranks` ranks that share `cores` cores.
idle_policy make_idle_policy(idle_mode mode, unsigned local_ranks, unsigned cores);

/// One step of idling for somebody who has idled for so long and yielded that often. False: time to sleep.
bool idle_once(const idle_policy& policy, std::chrono::nanoseconds idle_for, std::uint32_t& yields);

}  // namespace lsched
