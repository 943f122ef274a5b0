// Where a rank was, in words: for `lsched postmortem`, and for `lsched run` when a rank has been killed.
#pragma once

#include <string>

#include "libsched/transport/shm/shm_recording.h"

namespace lsched::cli {

/// The local time at a time of the monotonic clock: "2026-11-26 14:03:07.123456"; "?" out of a damaged recording.
std::string local_time(std::uint64_t monotonic_ns, std::int64_t wall_offset_ns);

/// The label of a schedule, as a terminal may be given it: the recording may be damaged.
std::string printable(const std::string& label);

/// "in allreduce/ring #0, round 17, op 4 (recv, rank 1) since 2026-11-26 14:03:07.123456"; of a rank that does not
/// wait, the schedules that it has and the last rounds called for; empty if there are none.
std::string words_for_place(const recorded_rank& one, std::int64_t wall_offset_ns);

}  // namespace lsched::cli
