// The times at which ranks called for the rounds of a partial schedule. These times show for which rank the other ranks
// wait.
#pragma once

#include <vector>

#include "microbench/report.h"

namespace lsched::bench {

/// Returns the arrivals of a rank. The gate is the moment at which a round takes the contribution of a rank. `in_time`,
/// `late` and `uncalled` are numbers of rounds. `bytes_sent` and `bytes_saved` are numbers of bytes. `completion_ms` is
/// the mean time from the gate to the end of the round. `lateness_ms` is the mean time from this rank's gate to its
/// call, and `lateness_ms_median` is the median. A time is negative if the call came first. The mean is over the rounds
/// whose times are kept. The median is over all rounds. The median is null if this rank did not call for the middle
/// round, or if the time of that round was not kept. Times are kept in bins whose sizes are powers of two, and the
/// median assumes that the values in a bin are evenly distributed.
result arrivals_of(const lsched_partial_stats& stats);

/// Returns the arrivals of all ranks, indexed by rank. This function is collective.
std::vector<result> gather(team& ranks, const result& own);

}  // namespace lsched::bench
