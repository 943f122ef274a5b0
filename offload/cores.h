// The number of cores that this process may use (affinity and control group), and the placement of threads.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lsched {

/// Returns the cores that the calling thread may run on, in ascending order of the system's numbers. Empty if the
/// system does not report them.
std::vector<unsigned> allowed_cores();

/// Returns the smaller of `cores` and the CPU quota of this process's control group (v1 or v2), rounded up; at least 1.
unsigned within_quota(unsigned cores);

/// Returns the number of cores that this process may use: within_quota() of its affinity mask. Reads system files:
/// slow.
unsigned usable_cores();

/// Returns the system's number of the calling thread.
int this_thread_number();

/// Returns whether a thread of this process neither runs nor waits for a core. Also true if the system does not report
/// the state. Takes some microseconds.
bool is_asleep(int thread);

/// Returns the number of `ranks` per core, rounded up. `cores` is at least 1.
constexpr unsigned ranks_per_core(unsigned ranks, unsigned cores) { return (ranks + cores - 1) / cores; }

// --- pinning.cc: the topology of the machine, from hwloc if available ---

/// Returns a core for the auxiliary thread of a rank whose application thread runs on the caller's present core. The
/// result is allowed for this process, differs from the caller's core and shares the closest cache with it. Returns
/// nothing if no such core exists, if `local_ranks` leave no core free, or without hwloc. Then the scheduler decides.
std::optional<unsigned> core_near_caller(unsigned local_ranks);

/// Binds the calling thread to one core. Returns false, without effect, if the system refuses.
bool bind_this_thread(unsigned core);

/// Returns, for example, "hwloc API 2.8.0", or "none".
std::string topology_library();

}  // namespace lsched
