// Texts about the current round and op of a rank, from a recording. `lsched postmortem` and `lsched run` print these
// texts.
#pragma once

#include <string>

#include "libsched/transport/shm/shm_recording.h"

namespace lsched::cli {

/// Converts a time of the monotonic clock to local time, such as "2026-11-26 14:03:07.123456". Returns "?" for a time
/// from a damaged recording.
std::string local_time(std::uint64_t monotonic_ns, std::int64_t wall_offset_ns);

/// Returns the label of a schedule. Escapes all bytes that could harm a terminal, because a damaged recording may
/// contain such bytes.
std::string printable(const std::string& label);

/// Returns a text about the wait of a rank, such as "in allreduce/ring #0, round 17, op 4 (recv, rank 1) since
/// 2026-11-26 14:03:07.123456". If the rank does not wait, the text lists the rank's schedules. Each schedule is listed
/// with the last round for which the rank has called.
std::string words_for_place(const recorded_rank& one, std::int64_t wall_offset_ns);

}  // namespace lsched::cli
