// The processes of the ranks of this node: whether they have ended, and what is in their memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libsched/transport/endpoint.h"

namespace lsched {

/// One thread.
class peer_processes {
 public:
  explicit peer_processes(rank ranks) : watched_(static_cast<std::size_t>(ranks), -1) {}
  ~peer_processes();
  peer_processes(const peer_processes&) = delete;
  peer_processes& operator=(const peer_processes&) = delete;

  /// Keeps hold of the peer's process (0: it has none yet), so that no other one that gets its number is taken for it.
  void watch(rank peer, std::int32_t process);

  /// Whether the process has ended, or, if something `is_awaited` of the peer, is about to: to find that out costs a
  /// file. A process that ended before it was first watched is not found by its number any more.
  bool has_ended(rank peer, std::int32_t process, bool is_awaited);

 private:
  std::vector<int> watched_;  ///< pidfds by rank; -1: this process, or not watched
};

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
