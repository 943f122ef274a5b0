// These functions search the ancestors of this process, because a rank may have started this process. Such a process
// inherits the environment by which ranks find their world, but is not a rank.
//
// A script, wrapper or debugger between the launcher and a rank does not load libsched. So a process counts as started
// by a rank if one of its ancestors below the launcher has loaded libsched. The search begins at the parent of the
// process that has loaded the library. So in a forked child, the search does not begin at the child's own parent. If
// /proc is hidden, no ancestor is found.
#pragma once

#include <cstdint>

namespace lsched {

/// Returns the process id of the nearest ancestor below `launcher` that has loaded libsched, or 0. If `launcher` is 0,
/// all ancestors are searched. Reads files.
std::int32_t find_user_above(std::int32_t launcher);

/// Returns true if `process` is an ancestor of this process. Reads files.
bool is_above(std::int32_t process);

}  // namespace lsched
