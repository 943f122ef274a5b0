// Which received payloads may stay where the transport has them instead of being copied into their buffer.
#pragma once

#include "libsched/schedule/schedule.h"

namespace lsched {

/// Sets op::in_place, releases_a and releases_b of all ops from everything else in `content`. A payload may stay if all
/// that ever happens to it, or to parts of it, is to be the operand `a` or `b` of computes that wait for it, each of
/// which reads it once.
void mark_in_place(schedule::parts& content);

}  // namespace lsched
