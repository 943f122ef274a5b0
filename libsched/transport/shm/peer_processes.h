// The processes of the ranks of this node: detection of ended processes, and reads of another process's memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "libsched/transport/endpoint.h"

namespace lsched {

/// A process: its number, and the namespace in which the number identifies it.
struct process_id {
  std::int32_t number = 0;  ///< 0: no process
  std::uint32_t space = 0;  ///< 0: unknown, because the system hides /proc
  friend bool operator==(const process_id&, const process_id&) = default;
};

/// Returns the calling process. Makes system calls.
process_id own_process();

/// Returns whether /proc lists processes by the numbers that this process sees.
bool is_proc_readable();

/// Returns whether no process with this number exists. A process that has ended exists until its parent has waited for
/// it. If a sandbox refuses kill(2), /proc decides.
bool is_gone(std::int32_t process);

/// Returns whether is_gone() can detect processes on this system.
bool can_find_processes();

/// Returns whether a signal has ended the process. If the process dumps much memory, it may still exist for minutes.
/// Reads a file.
bool is_killed(std::int32_t process);

/// Returns the parent of a process; 0: unknown. Reads a file.
std::int32_t parent_of(std::int32_t process);

/// Returns the start time of a process in clock ticks, which distinguishes it from a later process with its number. 0:
/// unknown. Reads a file.
std::uint64_t start_of_process(std::int32_t process);

/// Returns the state of a process. A process is ending if is_killed() or if its last thread has ended. A process is
/// stopped if a signal or a debugger has stopped it. Reads a file.
rank_state state_of_process(std::int32_t process);

// --- reading the memory of another process: process_vm_readv(2), one copy, made by the kernel on the reader's side ---
//
// Linux permits the call if the reader may trace the other process: the same user, unless Yama's ptrace_scope or a
// container forbids it. So a reader first tries to read a word with a known value. The value also shows whether the
// process number means the same process in both namespaces.

/// A word with a known value, by which peers test whether they can read this process.
class memory_probe {
 public:
  memory_probe();
  std::uint64_t address() const;

  /// Returns whether this process can read the process that holds a probe at `address`.
  static bool answers(std::int32_t process, std::uint64_t address);

 private:
  std::uint64_t word_;
};

/// Copies `bytes` bytes at `address` of `process` to `into`. Returns false if the process has ended or has not mapped
/// the whole range. The contents of `into` are then undefined. Blocks for the time of the copy. Any thread.
bool read_peer_memory(std::int32_t process, std::uint64_t address, std::byte* into, std::uint64_t bytes);

}  // namespace lsched
