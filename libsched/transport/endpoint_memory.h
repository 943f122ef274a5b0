// The memory of a transport: memory that peers may read directly, and places in the memory of other ranks.
// (docs/inside/transport.md)
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "ops/base.h"

namespace lsched {

/// Returns memory for std::free(), aligned to 64 bytes and not initialized; nullptr if no memory is left.
inline std::byte* allocate_aligned(std::uint64_t bytes) {
  constexpr std::uint64_t most = std::uint64_t{1} << 47;  // more than a process can address
  if (bytes > most) return nullptr;
  return static_cast<std::byte*>(std::aligned_alloc(64, (std::max<std::uint64_t>(bytes, 1) + 63) / 64 * 64));
}

/// Allocates memory that peers may be able to read directly, and finds places in the memory of other ranks. The
/// functions of this class are the implementation for transports whose ranks share no memory.
class endpoint_memory {
 public:
  virtual ~endpoint_memory() = default;

  /// Allocates memory that peers may be able to read directly. The memory is 64-byte aligned and not initialized.
  /// Returns nullptr if no memory is left. Any thread, cold path.
  virtual std::byte* allocate(std::size_t bytes) { return allocate_aligned(bytes); }
  virtual void deallocate(std::byte* memory) { std::free(memory); }

  /// Returns whether messages are sent from this memory without a copy. The caller guarantees that the memory has
  /// `bytes` bytes. Any thread.
  virtual bool sends_from(const std::byte* memory, std::uint64_t bytes) const {
    static_cast<void>(memory), static_cast<void>(bytes);
    return true;
  }

  /// Returns the offset of a place in this rank's memory; 0: no rank shares the memory. Other ranks pass the offset to
  /// memory_at().
  virtual std::uint64_t offset_of(const std::byte* memory) const {
    static_cast<void>(memory);
    return 0;
  }
  /// Returns a place in another rank's memory for reading; nullptr if the ranks share no memory, or if the memory has
  /// fewer than `bytes` bytes from that place on.
  virtual const std::byte* memory_at(rank who, std::uint64_t place, std::uint64_t bytes) const {
    static_cast<void>(who), static_cast<void>(place), static_cast<void>(bytes);
    return nullptr;
  }

  /// Announces a part of this rank's memory that is never freed, so that the ranks that share the memory can prepare to
  /// read the part. The part comes from allocate(). Returns false if no rank shares the memory or if too many parts are
  /// announced. Cold path.
  virtual bool announce_kept(const std::byte* memory, std::uint64_t bytes) {
    static_cast<void>(memory), static_cast<void>(bytes);
    return false;
  }
  /// Returns the announced part of any rank that contains [place, place + bytes), at its address in this process. Empty
  /// if there is no such part. Cheap.
  virtual std::span<const std::byte> kept_at(const std::byte* place, std::uint64_t bytes) const {
    static_cast<void>(place), static_cast<void>(bytes);
    return {};
  }
};

}  // namespace lsched
