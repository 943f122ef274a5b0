// Functions for the number of cores that this process may use (affinity and control group), and for the placement of
// threads on cores.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lsched {

/// Returns the cores on which the calling thread may run, in ascending order. Returns an empty list if the system does
/// not report them.
std::vector<unsigned> allowed_cores();

/// Returns the minimum of `cores` and the CPU quota of this process's control group (v1 or v2). The quota is rounded
/// up, and the result is at least 1.
unsigned within_quota(unsigned cores);

/// Returns the number of cores that this process may use: the size of its affinity mask, limited by within_quota().
/// Slow, because this function reads system files.
unsigned usable_cores();

/// Returns the system's id of the calling thread (gettid).
int this_thread_number();

/// Returns true if thread `thread` of this process neither runs nor waits for a core. Also returns true if the system
/// does not report the thread's state. Takes some microseconds.
bool is_asleep(int thread);

/// Returns ranks / cores, rounded up. `cores` must be at least 1.
constexpr unsigned ranks_per_core(unsigned ranks, unsigned cores) { return (ranks + cores - 1) / cores; }

// --- pinning.cc: the topology of the machine, from hwloc if available ---

/// Returns a core for the progress thread of this rank. The rank's application thread must call this function. The
/// returned core is allowed for this process, differs from the caller's core, and shares the closest cache with the
/// caller's core. Returns nothing if no such core exists, or if this build has no hwloc. Also returns nothing if this
/// process may use fewer than two cores for each of the `local_ranks` ranks on this machine. The progress thread should
/// then not be bound.
std::optional<unsigned> core_near_caller(unsigned local_ranks);

/// Binds the calling thread to one core. Returns false, without effect, if the system refuses.
bool bind_this_thread(unsigned core);

/// Returns the name and version of the topology library, for example "hwloc API 2.8.0", or "none".
std::string topology_library();

}  // namespace lsched
