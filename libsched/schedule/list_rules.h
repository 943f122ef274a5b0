// What ops may do with lists, and which guards they may have: asked by compile() and by verify.
#pragma once

#include <span>
#include <string>

#include "libsched/schedule/schedule.h"

namespace lsched {

/// Why an op, whose regions are inside buffers of its type, may not be; or an empty string. `when` is its guard, if
/// any.
std::string objection_to_lists(const op& what, std::span<const buffer> buffers, const guard* when);

/// Why a schedule may not have such lists or guards at all; or an empty string.
std::string objection_to_lists(std::span<const buffer> buffers, std::span<const guard> guards, bool is_synchronising,
                               bool is_partial);

}  // namespace lsched
