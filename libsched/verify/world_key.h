// The key of a world: a hash that identifies the world up to a common factor of its numbers of elements.
//
// Most algorithms treat vectors of 1000 elements like vectors of one element. Let all ops treat all elements alike, and
// multiply all numbers of elements of a world and of its postcondition by the same factor. The new world meets the new
// postcondition if and only if the old world meets the old postcondition.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "libsched/postcondition/aliasing.h"
#include "libsched/postcondition/postcondition.h"
#include "libsched/schedule/schedule.h"

namespace lsched {

struct world_key {
  /// Hash of the schedules and the postcondition, with all numbers of elements divided by the unit
  fingerprint hash{};
  std::uint64_t unit = 1;  ///< greatest common divisor of all numbers of elements
};

/// Returns the key of a world. Returns nullopt if the number or the identity of elements matters: with lists, guards,
/// functions, or sums of products, whose expressions name their elements. Also returns nullopt if a number of elements
/// or of promised bytes exceeds k_max_count. The schedules need not have passed any check.
std::optional<world_key> key_of(std::span<const schedule_ptr> world, const postcondition& promise,
                                const aliasing& in_place);

}  // namespace lsched
