// The key of a world: what tells it from other worlds, but for a factor of its numbers of elements.
//
// Most algorithms do with vectors of 1000 elements what they do with vectors of one. Where ops treat all elements
// alike, a world whose numbers of elements are all multiplied by the same factor keeps a promise, multiplied likewise,
// if and only if the world without the factor does.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "libsched/postcondition/aliasing.h"
#include "libsched/postcondition/postcondition.h"
#include "libsched/schedule/schedule.h"

namespace lsched {

struct world_key {
  fingerprint hash{};  ///< of the schedules and what is promised of them, all numbers of elements divided by the unit
  std::uint64_t unit = 1;  ///< the largest number that divides them all
};

/// Nothing where which elements there are, or how many, makes a difference: with lists, guards, functions or sums of
/// products (whose expressions say which elements are in them), or where a number of elements, or of promised bytes, is
/// above k_max_count. The schedules need not have passed any check.
std::optional<world_key> key_of(std::span<const schedule_ptr> world, const postcondition& promise,
                                const aliasing& in_place);

}  // namespace lsched
