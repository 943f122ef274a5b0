// Reading the memory of another process of the node: process_vm_readv(2), one copy, made by the kernel on the reader's
// side.
//
// Linux permits it to whoever may trace the other process: the same user, unless Yama's ptrace_scope or a container
// forbids it. So it is tried, with a word whose value is known, before anybody relies on it. Process numbers mean
// different processes in different namespaces; the word's value tells.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lsched {

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
