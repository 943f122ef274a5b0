// The interfaces to the memory of a device (device.h).
//
// Thread safety: only the engine's owner calls these functions, unless a comment permits any thread. No function waits
// for jobs in flight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "ops/base.h"
#include "ops/status.h"

namespace lsched {

/// Device memory that ranks of a node read directly. Only find_exposed() is called on the data path.
class device_peers {
 public:
  virtual ~device_peers() = default;

  /// Returns true if this device can read the device memory of transport rank `home`.
  virtual bool reads(rank home) = 0;

  /// Exposes device memory to peers. The memory stays exposed until hide() has been called as often as expose().
  /// Returns a location that peers pass to find_exposed(), or 0 if peers cannot read the memory.
  virtual std::uint64_t expose(const std::byte* memory, std::uint64_t bytes) = 0;
  virtual void hide(std::uint64_t where) = 0;

  /// Maps memory that rank `home` has exposed. The mapping lives at least as long as the returned pointer. Returns null
  /// on failure; device::failure_words() then has the reason, and a later call may succeed. The first call for an
  /// allocation takes about 100 us.
  virtual std::shared_ptr<const std::byte> find_exposed(rank home, std::uint64_t where, std::uint64_t bytes) = 0;

  /// Releases mappings of memory that is no longer exposed, or that belongs to a lost rank.
  virtual void forget_gone() = 0;
};

class device_memory {
 public:
  virtual ~device_memory() = default;

  /// Returns the memory space of the application's memory: host or device. Returns ARGUMENT if parts of the memory are
  /// in different spaces, on another device, or freed. Any thread may call this function.
  virtual result<memory_space> space_of(const std::byte* memory, std::uint64_t bytes) const = 0;

  /// Allocates memory in `space`, 256-byte aligned and uninitialized. Returns null if no memory is left.
  virtual std::byte* allocate(memory_space space, std::uint64_t bytes) = 0;
  virtual void deallocate(std::byte* memory) = 0;

  /// Allocates device memory for the application, as allocate() does. space_of() recognizes this memory until the call
  /// of take_back().
  virtual std::byte* lend(std::uint64_t bytes) = 0;
  /// Frees memory from lend(). Returns false if the memory is not from lend() or was already freed.
  virtual bool take_back(std::byte* memory) = 0;

  /// Returns true if the device can read `memory` directly, without a copy. `memory` must be staging memory of this
  /// rank or of a peer.
  virtual bool reaches(const std::byte* memory, std::uint64_t bytes) = 0;

  /// Returns null if peers cannot read memory of this device.
  virtual device_peers* peers() { return nullptr; }
};

}  // namespace lsched
