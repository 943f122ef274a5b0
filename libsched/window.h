// The windowed event engine for programs: one event a message, 40 bytes a rank.
//
// A rank is a clock that runs its program until a receive whose message has not come. Messages go through the calendar;
// their receiver's NIC takes them in the order of arrival, then source, then the number of the receive. What a message
// makes possible is done at once, before the next one is looked at (run to completion, as the engine does).
#pragma once

#include "libsched/simulation.h"
#include "ops/status.h"

namespace lsched {

/// Failures: ARGUMENT (no lookahead: L + o, or L with rendezvous, is not positive; a start that is
/// negative or too late), UNSUPPORTED (too long or too many bytes; activation in front of
/// anything but recursive doubling; a receive more than 63 ahead of its turn), INTERNAL (a rank never ends).
/// With `trace`, the report has the critical path; slower, and several times the memory. So is a record.
result<simulation_report> simulate_window(const simulation& what, bool trace = false,
                                          simulation_record* record = nullptr);

}  // namespace lsched
