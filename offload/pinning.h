// Where the progress thread runs: the machine's topology, asked through hwloc where it is there.
#pragma once

#include <optional>
#include <string>

namespace lsched {

/// A core for the auxiliary thread of a rank whose application thread runs where the caller runs now: one that
/// shares the closest cache with the caller's core, is allowed for this process and is not the caller's own.
/// Nothing if there is no such core, if `local_ranks` leave none free, or without hwloc: then the scheduler decides.
std::optional<unsigned> core_near_caller(unsigned local_ranks);

/// Binds the calling thread to one core. False, and nothing changed, if the system refuses.
bool bind_this_thread(unsigned core);

/// "hwloc API 2.8.0" or "none".
std::string topology_library();

}  // namespace lsched
