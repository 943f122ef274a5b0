// Shared sources: sends of the same bytes. A transport that copies payloads needs to copy a shared source only once per
// round.
#pragma once

#include <cstdint>
#include <vector>

#include "libsched/schedule/schedule.h"

namespace lsched {

/// Returns a number for each op. If two sends have the same number, and it is not 0, both read the same region, and the
/// content is the same in every round for both, even if outputs share memory with inputs. All other ops have the number
/// 0: ops that are not sends, sends whose source no other send shares, and sends for which the deps do not prove that
/// the content is the same. Sources in scratch buffers and lists, and sends with guards, always have the number 0. The
/// same is true for all ops of partial schedules, of schedules in which an op waits for only some of its deps, and of
/// schedules with more than k_most_ordered_ops ops (order.h).
std::vector<std::uint32_t> shared_sources(const schedule& program);

}  // namespace lsched
