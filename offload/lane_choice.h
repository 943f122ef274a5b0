// The choice of a rank's lane: the pool of worker threads for arithmetic (libsched/engine/lane.h).
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "libsched/engine/lane.h"
#include "libsched/transport/doorbell.h"
#include "ops/status.h"

namespace lsched {

/// One of the constants below, or a number of oneTBB workers. The values are those of lsched_lane_mode.
using lane_choice = std::int32_t;
inline constexpr lane_choice k_lane_auto = 0;
inline constexpr lane_choice k_lane_inline = -1;
inline constexpr lane_choice k_lane_tbb = -2;  ///< one worker for each free core, but at least one

inline constexpr lane_choice k_most_lane_workers = 1024;

/// Parses "auto", "inline", "tbb" or "tbb:4"; returns nothing for an invalid text.
std::optional<lane_choice> parse_lane(std::string_view text);

/// Returns UNSUPPORTED if this build does not support the lane, else OK.
status validate_lane(lane_choice choice);

/// Returns the number of workers of a rank whose machine has `local_ranks` ranks and `cores` cores. With k_lane_auto,
/// the cores that no rank needs are divided equally among the ranks. So a rank gets no worker if the machine has fewer
/// than two cores per rank.
unsigned lane_workers(lane_choice choice, unsigned local_ranks, unsigned cores);

/// Returns the reason why a rank has no workers, such as "no core is free". Must be called only if lane_workers()
/// returns 0.
std::string_view why_inline(lane_choice choice);

/// Creates the lane. Returns null if the rank has no workers (lane_workers). `choice` must be valid (validate_lane).
std::unique_ptr<lane> make_lane(lane_choice choice, unsigned local_ranks, unsigned cores, doorbell& bell);

}  // namespace lsched
