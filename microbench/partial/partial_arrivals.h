// The times at which ranks called for the rounds of a partial schedule. They show which rank the others wait for.
#pragma once

#include <vector>

#include "microbench/report.h"

namespace lsched::bench {

/// Returns the arrivals of a rank. in_time, late and uncalled are rounds. bytes_sent and bytes_saved are bytes.
/// completion_ms is the mean time from the gate to the end of the round. lateness_ms and lateness_ms_median are times
/// from this rank's gate to its call, negative if the call came first. The mean is over rounds whose times are kept.
/// The median is over all rounds, and null if the middle round was not called for or its time was not kept. Bins are
/// powers of two. For the median, the values of a bin are assumed to be spread evenly.
result arrivals_of(const lsched_partial_stats& stats);

/// Returns the arrivals of all ranks, by rank. Collective.
std::vector<result> gather(team& ranks, const result& own);

}  // namespace lsched::bench
