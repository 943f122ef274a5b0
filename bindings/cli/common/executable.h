// Search functions for executable files, and the exit statuses for programs that cannot be executed.
#pragma once

#include <string>

namespace lsched::cli {

/// Exit statuses of env(1) for a program that cannot be executed, and for a program that does not exist.
inline constexpr int k_exit_not_executable = 126;
inline constexpr int k_exit_not_found = 127;

/// Returns the path of this program's file. If /proc is hidden, returns the path with which the program was started.
std::string own_program();

/// Searches the folders of PATH for the executable file `name`, unless `name` contains a slash. Sets `path` to the path
/// of the file. Returns 0, k_exit_not_found or k_exit_not_executable.
int find_executable(const std::string& name, std::string& path);

/// Prints why execve failed for the program, and returns the exit status that a shell would return. `error` is the
/// errno of execve.
int refuse_program(const std::string& name, int error);

}  // namespace lsched::cli
