// The form of a schedule: checks that need only this schedule. The rest of the proof relies on these checks.
#pragma once

#include "libsched/postcondition/aliasing.h"
#include "libsched/schedule/schedule.h"
#include "libsched/verify/finding.h"

namespace lsched {

/// Checks the rules that compile() enforces, because schedules may come from other sources:
///
///   - The schedule is that of rank `place.self` of `place.size`.
///   - Ids exist, and deps lead from lower to higher ids. No op needs more tokens than it has deps.
///   - Regions do not exceed their buffers. Operands do not overlap partially. Only captures write inputs.
///   - Peers are other ranks, and no tag is used twice for a peer.
///   - Lists and guards are valid.
///   - Payloads are read in place and released as compile() decides.
///   - With policy `full`, captures wait for the call. A partial schedule has one call, capture, input and output.
///   - Buffers that share memory can do so (words_for_misfit in aliasing.h).
void check_form(const schedule& program, world place, const aliasing& in_place, finding_list& out);

/// Returns the name of an op for messages, such as "op 7 (send to 5)".
std::string op_words(const schedule& program, op_id id);

/// Returns the name of an op and its rank for messages, such as "rank 3 op 7 (send to 5)".
std::string words_for(const schedule& program, op_id id);

}  // namespace lsched
