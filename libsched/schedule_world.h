// The windowed event engine for schedules: any generator's output, all ranks of it, one round.
//
// Ops fire by libsched/round.h: any triggers, quorums, signals, captures. The cost of a message is LogGOPS's, as in
// window.h; the difference is that a receive is matched as soon as it has fired and its message is there, so messages
// are taken in the order of arrival, then source, then tag, while a program takes them in its own order. An op is
// carried out at once, in the order in which ops fire, and what a message makes possible before the next message
// (run to completion, as the engine does). A send beyond S is complete when its bytes have left, not before.
#pragma once

#include <span>

#include "libsched/alike_world.h"
#include "libsched/simulation.h"
#include "ops/status.h"

namespace lsched {

/// `what.what` is ignored; `what.starts` too: the schedules say how they start, in round `what.instance`, and
/// `what.initiator` who counts with majority. Null contributions are sent like others. With `trace`, the report has the
/// critical path. Failures: ARGUMENT (no ranks, or not of one world; no lookahead; a start that is negative or too
/// late), UNMATCHED (a message that nobody receives), UNSUPPORTED (shared NICs; too long or too many bytes), STATE (a
/// rank gets stuck; the text says where).
result<simulation_report> simulate_schedules(std::span<const schedule_ptr> ranks, const simulation& what,
                                             simulation_record* record = nullptr, bool trace = false);

/// The same of ranks that are all alike, by one of them: every rank ends when it does. Only the order of messages that
/// reach a rank in the same picosecond is the one rank's, and where ranks' work differs it is the mean. Failures as
/// above, and UNSUPPORTED: a machine that makes differences between ranks, by skew, noise or levels.
result<simulation_report> simulate_alike(const alike_world& ranks, const simulation& what, bool trace = false);

}  // namespace lsched
