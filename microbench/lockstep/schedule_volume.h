// The data that a rank moves in a round, counted in its schedule.
#pragma once

#include <cstdint>

#include "libsched/schedule/schedule.h"

namespace lsched {

/// The bytes that a rank sends, or the bytes that it receives. Headers of messages are not included.
struct moved_bytes {
  std::uint64_t payload = 0;   ///< lists, or all data of a schedule without lists
  std::uint64_t metadata = 0;  ///< counters, lengths and bitmaps
  std::uint64_t messages = 0;
};

struct schedule_volume {
  moved_bytes sent, received;
};

/// Returns the volume of a round in which every guard (a condition on the round number, schedule.h) is true. Lists have
/// their typical length, so messages of lists that are typically empty are not counted.
schedule_volume volume_of(const schedule& program);

}  // namespace lsched
