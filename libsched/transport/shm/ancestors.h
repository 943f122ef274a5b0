// The processes above this one: its parent, the parent of that, and so on. A process that a rank has started inherits
// the environment by which ranks find their world, and is no rank.
//
// A script, a wrapper or a debugger between the launcher and a rank does not use libsched. So a process is started by a
// rank if a process between it and the launcher has libsched loaded. A process that was forked, and executes no other
// program, counts as the process that has loaded the library. Where /proc is hidden, nothing is found.
#pragma once

#include <cstdint>

namespace lsched {

/// Returns the number of the nearest process between this process and `launcher` that has libsched loaded; 0: no
/// process has. A launcher of 0 is unknown, and all processes above this process are looked at. Reads files.
std::int32_t find_user_above(std::int32_t launcher);

/// Returns whether the process is above this process. Reads files.
bool is_above(std::int32_t process);

}  // namespace lsched
