// How many cores there are for us: affinity, and what the control group grants.
#pragma once

#include <vector>

namespace lsched {

/// The cores that the calling thread may run on, ascending, as the operating system numbers them. Empty if it does
/// not tell.
std::vector<unsigned> allowed_cores();

/// The smaller of `cores` and what this process's control group (1 or 2) grants per time, rounded up; at least 1.
unsigned within_quota(unsigned cores);

/// Cores that this process may use: within_quota of its affinity mask. Reads the operating system; cold path.
unsigned usable_cores();

/// How many of `ranks` share a core of `cores`, which is at least 1; rounded up.
constexpr unsigned ranks_per_core(unsigned ranks, unsigned cores) { return (ranks + cores - 1) / cores; }

}  // namespace lsched
