// Which received payloads may stay where the transport has them instead of being copied into their buffer.
#pragma once

#include "libsched/schedule.h"

namespace lsched {

/// Sets op::in_place, releases_a and releases_b of all ops from everything else in `content`. A payload may stay if
/// the one thing that ever happens to it is to be an operand of the compute that waits for it. An operand counts once
/// per use, so a compute that reads a buffer twice is no single reader.
void mark_in_place(schedule::parts& content);

}  // namespace lsched
