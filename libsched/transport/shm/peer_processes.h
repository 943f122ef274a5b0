// These functions find out whether processes of a node have ended, and read another process's memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "libsched/transport/endpoint.h"

namespace lsched {

/// A process: its number (pid), and the pid namespace in which this number is valid.
struct process_id {
  std::int32_t number = 0;
  std::uint32_t space = 0;  ///< 0: unknown, because the system hides /proc
  friend bool operator==(const process_id&, const process_id&) = default;
};

/// Returns the id of the calling process. Makes system calls.
process_id own_process();

/// Returns true if /proc exists and belongs to this process's pid namespace.
bool is_proc_readable();

/// Returns true if no process with this number exists. (A process that has ended still exists until its parent has
/// waited for it.) If a sandbox refuses kill(2), the function looks in /proc.
bool is_gone(std::int32_t process);

/// Returns true if is_gone() works on this system.
bool can_find_processes();

/// Returns true if the process is gone or a signal has killed it. A killed process that dumps core may still exist for
/// minutes. Reads a file.
bool is_killed(std::int32_t process);

/// Returns the parent of a process, or 0 if unknown. Reads a file.
std::int32_t parent_of(std::int32_t process);

/// Returns the start time of a process in clock ticks, or 0 if unknown. The start time distinguishes the process from a
/// later process with the same number. Reads a file.
std::uint64_t start_of_process(std::int32_t process);

/// Returns the state of a process. Returns `ending` if is_killed() is true or the last thread has ended, and `stopped`
/// if a signal or a debugger has stopped the process. Reads a file.
rank_state state_of_process(std::int32_t process);

// --- reads of another process's memory by process_vm_readv(2), which copies the data only once ---
//
// Linux permits the call if the reader may trace the other process. Usually, both must have the same user. Yama's
// ptrace_scope or a container may forbid the call. So a reader first tries to read a word with a known value. If the
// pid namespaces differ, the value also proves that the process number identifies the right process.

/// A word with a known value, by which peers test whether they can read this process's memory.
class memory_probe {
 public:
  memory_probe();
  std::uint64_t address() const;

  /// Returns true if this process can read the memory of `process`, which must have a probe at `address`.
  static bool answers(std::int32_t process, std::uint64_t address);

 private:
  std::uint64_t word_;
};

/// Copies `bytes` bytes from `address` in the memory of `process` to `into`. Returns false, with undefined contents of
/// `into`, if the process has ended or has not mapped the whole range. Blocks during the copy. Any thread may call this
/// function.
bool read_peer_memory(std::int32_t process, std::uint64_t address, std::byte* into, std::uint64_t bytes);

}  // namespace lsched
