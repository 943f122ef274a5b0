// When each rank called for the rounds of a partial schedule, side by side: who everybody is waiting for.
#pragma once

#include <vector>

#include "microbench/report.h"

namespace lsched::bench {

/// in_time, late, uncalled: rounds; bytes_sent, bytes_saved; completion_ms: mean, from the gate to the round's end.
/// lateness_ms and lateness_ms_median: from this rank's gate to its call; negative: the call came first. The mean is of
/// rounds whose times are kept, the median of all; null if the middle one has not been called for, or its time is not
/// kept. For the median: bins are powers of two, and in each of them values are taken to be spread evenly.
result arrivals_of(const lsched_partial_stats& stats);

/// Every rank's, by rank. Collective.
std::vector<result> gather(team& ranks, const result& own);

}  // namespace lsched::bench
