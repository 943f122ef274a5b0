// The key of a world is a hash. It identifies the world up to a common factor of all element counts.
//
// If all ops treat all elements in the same way, a world can be scaled: all element counts of the world and of its
// postcondition are multiplied by the same factor. The new world meets the new postcondition if and only if the old
// world meets the old postcondition. So such worlds have the same hash, and only one needs a proof.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "libsched/postcondition/aliasing.h"
#include "libsched/postcondition/postcondition.h"
#include "libsched/schedule/schedule.h"

namespace lsched {

struct world_key {
  /// Hash of the schedules and the postcondition, with all element counts divided by `unit`
  fingerprint hash{};
  std::uint64_t unit = 1;  ///< greatest common divisor of all element counts
};

/// Returns the key of a world. Returns nullopt if ops do not treat all elements in the same way. This is the case with
/// lists, guards, functions, or dot products. Also returns nullopt if an element count or a promised byte count exceeds
/// k_max_count. The schedules need not have passed any check.
std::optional<world_key> key_of(std::span<const schedule_ptr> world, const postcondition& promise,
                                const aliasing& in_place);

}  // namespace lsched
