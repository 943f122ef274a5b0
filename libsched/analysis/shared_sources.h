// Shared sources: sends of the same bytes, which a transport that has to copy payloads copies once per round.
#pragma once

#include <cstdint>
#include <vector>

#include "libsched/schedule/schedule.h"

namespace lsched {

/// Returns a number for each op. Sends with equal numbers other than 0 read the same region with the same content in
/// every round. This holds at any time in the round, even if the schedule is bound in place. A send has the number 0 if
/// no other send shares its source, or if deps alone cannot prove that. Deps are not enough for any and quorum
/// triggers, guards, lists, partial schedules and scratch buffers.
std::vector<std::uint32_t> shared_sources(const schedule& program);

}  // namespace lsched
