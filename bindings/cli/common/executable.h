// Files that can be executed.
#pragma once

#include <string>

namespace lsched::cli {

/// Exit statuses for a program that cannot be executed, and one that does not exist, as env(1) has them.
inline constexpr int k_exit_not_executable = 126;
inline constexpr int k_exit_not_found = 127;

/// The file of this program. Where /proc is hidden, it is the path by which the program was started.
std::string own_program();

/// The file that `name` means, searched in PATH unless it contains a slash. Answers 0 and the path, or
/// k_exit_not_found or k_exit_not_executable.
int find_executable(const std::string& name, std::string& path);

/// Prints why the system does not execute the program, and returns the exit status that a shell would return. `error`
/// is that of execve.
int refuse_program(const std::string& name, int error);

}  // namespace lsched::cli
