// The form of a schedule: everything the rest of the proof relies on, checked for one schedule by itself.
#pragma once

#include "libsched/postcondition/aliasing.h"
#include "libsched/schedule/schedule.h"
#include "libsched/verify/finding.h"

namespace lsched {

/// What compile() guarantees, for schedules that may have come another way: it is rank `place.self` of `place.size`;
/// ids exist; deps go from lower to higher numbers; no op needs more tokens than it has deps; regions and late bounds
/// stay in their buffers; peers are other ranks; no tag is used twice; only captures write inputs; operands do not
/// overlap in part; payloads stay in place, and are released by their
/// readers, as compile() decides; late extents are received
/// before they are used; with policy full, captures wait for the call. In place, buffers that share memory must fit.
void check_form(const schedule& program, world place, const aliasing& in_place, finding_list& out);

/// "op 7 (send to 5)"
std::string op_words(const schedule& program, op_id id);

/// "rank 3 op 7 (send to 5)"
std::string words_for(const schedule& program, op_id id);

}  // namespace lsched
