// Which lane a rank has: as the user says, and as many workers as cores are free.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "libsched/engine/lane.h"
#include "libsched/transport/doorbell.h"
#include "ops/status.h"

namespace lsched {

/// One of these, or a number of oneTBB workers: the numbers of lsched_lane_mode.
using lane_choice = std::int32_t;
inline constexpr lane_choice k_lane_auto = 0;
inline constexpr lane_choice k_lane_inline = -1;
inline constexpr lane_choice k_lane_tbb = -2;  ///< as many workers as cores are free, but at least one

/// The most workers anybody may ask for.
inline constexpr lane_choice k_most_lane_workers = 1024;

/// "auto", "inline", "tbb" or "tbb:4"; nothing for any other text.
std::optional<lane_choice> parse_lane(std::string_view text);

/// Why this build cannot have that lane (UNSUPPORTED), or ok.
status validate_lane(lane_choice choice);

/// How many workers a rank has that shares `cores` cores with all `local_ranks` ranks of its machine. Left to itself a
/// rank gets its equal share of the cores that no rank needs, in whole cores: none where ranks and cores are equally
/// many.
unsigned lane_workers(lane_choice choice, unsigned local_ranks, unsigned cores);

/// Why arithmetic is inline, for people: "no core is free". Only where there are no workers.
std::string_view why_inline(lane_choice choice);

/// Null where there are no workers. The choice is one that this build can have.
std::unique_ptr<lane> make_lane(lane_choice choice, unsigned local_ranks, unsigned cores, doorbell& bell);

}  // namespace lsched
