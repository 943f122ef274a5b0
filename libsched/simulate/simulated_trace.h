// A simulated run as the events of a trace: the same picture that real runs have.
#pragma once

#include <vector>

#include "libsched/simulate/simulation.h"
#include "libsched/trace/trace.h"

namespace lsched {

/// An event for each op of the record and one for the round of each rank, of the ranks below record.ranks, as schedule
/// 0. Simulated times are rounded down to whole nanoseconds. `report` is of the run that filled the record, `what` what
/// was simulated there.
std::vector<trace_event> trace_of(const simulation_record& record, const simulation_report& report,
                                  const simulation& what);

}  // namespace lsched
