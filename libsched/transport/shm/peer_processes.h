// The processes of the ranks of this node: whether they have ended, and what is in their memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "libsched/transport/endpoint.h"

namespace lsched {

/// A process: its number, and the name space in which that number means this process.
struct process_id {
  std::int32_t number = 0;  ///< 0: no process
  std::uint32_t space = 0;  ///< 0: unknown, because the system hides /proc
  friend bool operator==(const process_id&, const process_id&) = default;
};

/// The calling process. Asks the system.
process_id own_process();

/// Returns whether /proc lists processes by the numbers that this process sees.
bool is_proc_readable();

/// Returns whether there is no such process. A process that has ended exists until its parent has waited for it. If a
/// sandbox refuses kill(2), /proc decides.
bool is_gone(std::int32_t process);

/// Returns whether is_gone() can find processes here.
bool can_find_processes();

/// Whether a signal has ended the process, though it may take minutes until it is gone, where there is much to dump.
/// Reads a file.
bool is_killed(std::int32_t process);

/// The parent of a process; 0: unknown. Reads a file.
std::int32_t parent_of(std::int32_t process);

/// When it was started, in a unit of the system's; tells it from a later process of its number. 0: unknown. Reads a
/// file.
std::uint64_t start_of_process(std::int32_t process);

/// Reads a file. A process is ending that is_killed(), or whose last thread has ended. It is stopped by a signal or a
/// debugger.
rank_state state_of_process(std::int32_t process);

// --- reading the memory of another process: process_vm_readv(2), one copy, made by the kernel on the reader's side ---
//
// Linux permits it to whoever may trace the other process: the same user, unless Yama's ptrace_scope or a container
// forbids it. So it is tried, with a word whose value is known, before anybody relies on it. Process numbers mean
// different processes in different namespaces; the word's value tells.

/// A word at a known place, by which others find out whether they can read this process.
class memory_probe {
 public:
  memory_probe();
  std::uint64_t address() const;

  /// Whether the caller's process can read the process that holds a probe at `address`.
  static bool answers(std::int32_t process, std::uint64_t address);

 private:
  std::uint64_t word_;
};

/// Copies `bytes` bytes at `address` of `process` to `into`. False: the process has ended, or
/// they are not all its memory; `into` then holds anything. Blocks as long as a copy takes. Any thread.
bool read_peer_memory(std::int32_t process, std::uint64_t address, std::byte* into, std::uint64_t bytes);

}  // namespace lsched
