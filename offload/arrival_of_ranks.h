// The start of a world of one segment: nobody goes on before all ranks have opened it.
#pragma once

#include <chrono>
#include <optional>

#include "libsched/transport/shm/shm_segment.h"
#include "ops/status.h"

namespace lsched {

/// Waits until every rank of the segment has opened its endpoint: the first commit looks at all of them. TIMEOUT names
/// a rank that has not come within the limit.
std::optional<failure> wait_for_ranks(shm_segment& segment, std::chrono::nanoseconds limit);

}  // namespace lsched
