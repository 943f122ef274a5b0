// The event engine: times one round of a world's schedules, whatever wrote them.
//
// Ops fire by round.h: any triggers, quorums, signals, captures. A message costs what LogGOPS says
// (loggops.h). A receive is matched as soon as it has fired and its message is there: messages are taken in
// the order of arrival, then source, then tag. An op is carried out at once, in the order in which ops fire, and so is
// what a message makes possible before the next message (run to completion, as the engine does). A send beyond S is
// complete when its bytes have left, not before.
#pragma once

#include "libsched/simulate/packed_world.h"
#include "libsched/simulate/simulated_round.h"
#include "ops/status.h"

namespace lsched {

/// Round `what.instance`; the schedules say how it starts, and `what.initiator` whose call counts with majority. With
/// `trace`, the report has the critical path; slower, and several times the memory. So is a record. Failures: ARGUMENT
/// (no ranks, or not of one world; no lookahead: L + o, or L with rendezvous, is not positive; a start that is negative
/// or too late), UNMATCHED (a message that nobody receives), UNSUPPORTED (too long or too many bytes), STATE (a rank
/// gets stuck; the text says where).
result<simulation_report> simulate_round(const packed_world& ranks, const simulated_round& what,
                                         simulation_record* record = nullptr, bool trace = false);

}  // namespace lsched
