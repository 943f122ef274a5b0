// Which sends of a schedule send the same bytes, so that a transport that has to copy them does so once a round.
#pragma once

#include <cstdint>
#include <vector>

#include "libsched/schedule/schedule.h"

namespace lsched {

/// By op: sends with equal numbers other than 0 read the same region with the same content in every round, whenever in
/// the round they fire, even if the schedule is bound in place. What cannot be told from deps alone (any and quorum
/// triggers, guards, lists, partial schedules, scratch buffers) has 0, as has a send that is alone.
std::vector<std::uint32_t> shared_sources(const schedule& program);

}  // namespace lsched
