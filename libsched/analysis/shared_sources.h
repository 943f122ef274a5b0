// A shared source is a region from which several sends of a round send the same bytes. A transport that copies payloads
// copies a shared source only once per round.
#pragma once

#include <cstdint>
#include <vector>

#include "libsched/schedule/schedule.h"

namespace lsched {

/// Returns a group id for each op. Sends with the same positive id read the same region. In every round, they read the
/// same content, even if outputs share memory with inputs. The id is 0 for ops that are not sends, for sends whose
/// source no other send shares, and for sends whose deps do not prove that the content is equal. The id is also 0 for
/// sends from scratch buffers or lists, and for sends with guards. All ops have the id 0 in partial schedules, in
/// schedules in which an op waits for only some of its deps, and in schedules with more than k_most_ordered_ops ops
/// (order.h).
std::vector<std::uint32_t> shared_sources(const schedule& program);

}  // namespace lsched
