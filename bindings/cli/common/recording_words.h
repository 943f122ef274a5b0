// Where a rank was, in words: for `lsched postmortem`, and for `lsched run` when a rank has been killed.
#pragma once

#include <string>

#include "libsched/transport/shm/shm_recording.h"

namespace lsched::cli {

/// Of a time of the monotonic clock, the local time of day, to the microsecond: "14:03:07.123456".
std::string time_of_day(std::uint64_t monotonic_ns, std::int64_t wall_offset_ns);

/// Its label, as a terminal may be given it: the recording may be damaged.
std::string name_of(const recorded_schedule& one);

/// "in allreduce/ring #0, round 17, op 5 (recv, rank 1) since 14:03:07.123456"; of a rank that does not wait, the
/// schedules that it has and the last rounds called for; empty if there are none.
std::string words_for_place(const recorded_rank& one, std::int64_t wall_offset_ns);

}  // namespace lsched::cli
