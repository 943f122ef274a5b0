// The max-plus sweep: all ranks of a round at once, over contiguous arrays.
//
// A round of a regular algorithm is one addition and one maximum per rank: t' = max(t, t of the partner + cost) + o.
// The sweep has no events and so no receiver's NIC: messages of different rounds that reach a rank within one gap of
// each other, which takes skew, noise or a fold, do not queue. Without noise it therefore never says later than the
// windowed engine; and it says exactly the same wherever that engine counted no `nic_waits`. Recursive doubling on
// powers of two runs in tiles that stay in the cache.
#pragma once

#include "libsched/simulation.h"
#include "ops/status.h"

namespace lsched {

/// Failures: ARGUMENT (a start that is negative or too late), UNSUPPORTED (too long or too many bytes; gather or a
/// tree, rendezvous, activation, LogGOPSim's rules: take the windowed engine).
result<simulation_report> simulate_sweep(const simulation& what);

}  // namespace lsched
