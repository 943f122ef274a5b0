// What takes so long that everybody knows, as formulas: a collective on a silent machine of one level where all ranks
// begin at once, and the mean latencies of partial allreduce under linear skew.
#pragma once

#include "libsched/simulation.h"
#include "ops/status.h"

namespace lsched {

/// T(m): one message where nothing is in its way.
picoseconds hop(const machine& where, std::uint64_t bytes);

/// When the last rank finishes. Recursive doubling, dissemination and a binomial reduction: log2 P hops; ring: 2(P-1)
/// hops of a block; gather: a hop, and P-2 messages at the root's pace. All but gather hold while no message waits for
/// a NIC, which is certain where g + (m-1) G <= L + o + (m-1) max(G, O).
/// Failures: UNSUPPORTED (skew, noise, levels, activation; a longer gap than that; other trees; recursive doubling and
/// binomial reduction on other than powers of two; a ring whose blocks differ; a gather beyond S; too long).
result<picoseconds> closed_form(const simulation& what);

/// Li et al. 2020, Fig. 8 and 9: rank r calls at r * skew. Mean over ranks of the time between its call and its result,
/// if the collective itself, the activation included, takes `cost` from its first call on.
struct partial_latency {
  picoseconds synchronous;  ///< (P-1)/2 skew + cost: all wait for the last
  picoseconds majority;     ///< (P^2-1)/(6P) skew + (P+1)/(2P) cost: all up to a rank drawn uniformly wait for it
  picoseconds solo;         ///< those who call within `cost` of rank 0 wait for the rest of it
};
partial_latency latency_under_linear_skew(rank size, picoseconds skew, picoseconds cost);

}  // namespace lsched
