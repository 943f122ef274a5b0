// Text about the place of a rank, for `lsched postmortem`, and for `lsched run` when a rank has been killed.
#pragma once

#include <string>

#include "libsched/transport/shm/shm_recording.h"

namespace lsched::cli {

/// Converts a time of the monotonic clock to local time, such as "2026-11-26 14:03:07.123456". Returns "?" for a time
/// from a damaged recording.
std::string local_time(std::uint64_t monotonic_ns, std::int64_t wall_offset_ns);

/// Returns the label of a schedule with bytes escaped that a terminal must not get. The recording may be damaged.
std::string printable(const std::string& label);

/// Returns the wait of a rank: "in allreduce/ring #0, round 17, op 4 (recv, rank 1) since 2026-11-26 14:03:07.123456".
/// For a rank that does not wait, returns its schedules with the last round called for. Returns an empty string for a
/// rank without schedules.
std::string words_for_place(const recorded_rank& one, std::int64_t wall_offset_ns);

}  // namespace lsched::cli
