// The ancestors of this process. A process that a rank has started inherits the environment by which ranks find their
// world, but is not a rank.
//
// A script, a wrapper or a debugger between the launcher and a rank does not use libsched. So a process counts as
// started by a rank if a process between it and the launcher has libsched loaded. A forked process that has executed no
// other program counts as the process that has loaded the library. If /proc is hidden, no ancestor is found.
#pragma once

#include <cstdint>

namespace lsched {

/// Returns the process id of the nearest process between this process and `launcher` that has libsched loaded; 0: no
/// such process. If `launcher` is 0, the launcher is unknown, and all ancestors are searched. Reads files.
std::int32_t find_user_above(std::int32_t launcher);

/// Returns whether the process is an ancestor of this process. Reads files.
bool is_above(std::int32_t process);

}  // namespace lsched
