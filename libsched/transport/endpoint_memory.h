// A transport may let ranks read each other's memory directly. This interface allocates such memory, and finds places
// in the memory of other ranks (docs/inside/transport.md).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "ops/base.h"

namespace lsched {

/// Allocates memory that is aligned to 64 bytes and not initialized. The caller frees the memory with std::free().
/// Returns nullptr if no memory is left.
inline std::byte* allocate_aligned(std::uint64_t bytes) {
  constexpr std::uint64_t most = std::uint64_t{1} << 47;  // more than a process can address
  if (bytes > most) return nullptr;
  return static_cast<std::byte*>(std::aligned_alloc(64, (std::max<std::uint64_t>(bytes, 1) + 63) / 64 * 64));
}

/// Transports whose ranks share no memory use the functions of this base class.
class endpoint_memory {
 public:
  virtual ~endpoint_memory() = default;

  /// Allocates memory that peers may be able to read directly. The memory is 64-byte aligned and not initialized.
  /// Returns nullptr if no memory is left. Any thread may call this function, but only on a cold path.
  virtual std::byte* allocate(std::size_t bytes) { return allocate_aligned(bytes); }
  virtual void deallocate(std::byte* memory) { std::free(memory); }

  /// Returns whether the transport sends messages from this memory without a copy. The caller guarantees that the
  /// memory has `bytes` bytes. Any thread may call this function.
  virtual bool sends_from(const std::byte* memory, std::uint64_t bytes) const {
    static_cast<void>(memory), static_cast<void>(bytes);
    return true;
  }

  /// Returns the offset of a place in this rank's memory, or 0 if no rank shares this memory. Other ranks pass the
  /// offset to memory_at().
  virtual std::uint64_t offset_of(const std::byte* memory) const {
    static_cast<void>(memory);
    return 0;
  }
  /// Returns the address of the place with offset `place` in the memory of rank `who`. The caller may only read the
  /// memory there. Returns nullptr if the ranks share no memory, or if fewer than `bytes` bytes are left from that
  /// place on.
  virtual const std::byte* memory_at(rank who, std::uint64_t place, std::uint64_t bytes) const {
    static_cast<void>(who), static_cast<void>(place), static_cast<void>(bytes);
    return nullptr;
  }

  /// Announces a part of this rank's memory that is never freed. The ranks that share this memory can then prepare to
  /// read the part. The part must come from allocate(). Returns false if no rank shares the memory, or if too many
  /// parts were announced. Only cold paths may call this function.
  virtual bool announce_kept(const std::byte* memory, std::uint64_t bytes) {
    static_cast<void>(memory), static_cast<void>(bytes);
    return false;
  }
  /// Returns the announced part that contains [place, place + bytes), at its address in this process. The part may
  /// belong to any rank. Returns an empty span if there is no such part. This function is cheap.
  virtual std::span<const std::byte> kept_at(const std::byte* place, std::uint64_t bytes) const {
    static_cast<void>(place), static_cast<void>(bytes);
    return {};
  }
};

}  // namespace lsched
