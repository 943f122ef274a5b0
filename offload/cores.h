// How many cores there are for us (affinity, and what the control group grants), and which one a thread runs on.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lsched {

/// The cores that the calling thread may run on, ascending, as the operating system numbers them. Empty if it does
/// not tell.
std::vector<unsigned> allowed_cores();

/// The smaller of `cores` and what this process's control group (1 or 2) grants per time, rounded up; at least 1.
unsigned within_quota(unsigned cores);

/// Cores that this process may use: within_quota of its affinity mask. Reads the operating system; cold path.
unsigned usable_cores();

/// The number that the system gives the calling thread.
int this_thread_number();

/// Whether that thread of this process sleeps at present: it neither runs nor waits for a core. True also where the
/// system does not tell. Takes some microseconds.
bool is_asleep(int thread);

/// How many of `ranks` share a core of `cores`, which is at least 1; rounded up.
constexpr unsigned ranks_per_core(unsigned ranks, unsigned cores) { return (ranks + cores - 1) / cores; }

// --- pinning.cc: the machine's topology, asked through hwloc where it is there ---

/// A core for the auxiliary thread of a rank whose application thread runs where the caller runs now: one that
/// shares the closest cache with the caller's core, is allowed for this process and is not the caller's own.
/// Nothing if there is no such core, if `local_ranks` leave none free, or without hwloc: then the scheduler decides.
std::optional<unsigned> core_near_caller(unsigned local_ranks);

/// Binds the calling thread to one core. False, and nothing changed, if the system refuses.
bool bind_this_thread(unsigned core);

/// "hwloc API 2.8.0" or "none".
std::string topology_library();

}  // namespace lsched
