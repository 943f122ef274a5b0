// The memory of the fake driver, by address.
//
// Device memory is a memfd that only the driver maps. The device addresses that programs see lie in an inaccessible
// arena (PROT_NONE) and are never reused. If the host accesses device memory, even after it was freed, the process
// crashes with a message (crash.h). All functions require the driver's lock.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace fake_cuda {

using address = std::uintptr_t;

inline constexpr std::size_t k_capacity = std::size_t{80} << 30U;  ///< device memory of one device, in bytes
inline constexpr std::size_t k_granularity = std::size_t{2} << 20U;

enum class space { device, managed, host, registered };

/// A block of device memory, shared by all mappings of that block. Other processes map the memfd.
struct chunk {
  int fd = -1;
  std::size_t size = 0;
  int device = 0;
  CUmemAllocationHandleType handle_types = CU_MEM_HANDLE_TYPE_NONE;  ///< set only for virtual memory management (VMM)

  chunk(int of_fd, std::size_t of_size, int of_device) : fd(of_fd), size(of_size), device(of_device) {}
  ~chunk();
  chunk(const chunk&) = delete;
  chunk& operator=(const chunk&) = delete;
};

/// Returns a new chunk, filled with zeros, or nullptr if memory is exhausted.
std::shared_ptr<chunk> make_chunk(std::size_t size, int device);

/// Returns the chunk behind a memfd that the fake driver of this or another process has created, and takes ownership of
/// the descriptor. Returns nullptr for any other descriptor.
std::shared_ptr<chunk> adopt_chunk(int fd);

/// A range of addresses: one allocation, one registration, or one mapping of a VMM handle.
struct range {
  address start = 0;
  std::size_t size = 0;
  space kind = space::device;
  int device = 0;
  CUcontext context = nullptr;  ///< context that owns the range; null for VMM and pools
  std::uint32_t devices = 0;    ///< bit mask of devices with access
  std::byte* bytes = nullptr;   ///< address at which the driver accesses the range; null for VMM without access
  std::shared_ptr<chunk> backing;
  std::uint64_t id = 0;
  std::uint64_t opened = 0;  ///< imported memory: number of times that the program has opened the handle
  std::string origin;        ///< imported memory: handle from which the range was imported
  address reservation = 0;   ///< VMM mapping: start of the reservation that contains it; 0 for other ranges

  bool holds(address from, std::size_t bytes_of_it) const {
    return from >= start && from - start <= size && bytes_of_it <= size - (from - start);
  }
  bool is_exportable() const { return kind == space::device && context != nullptr && origin.empty(); }
};

class memory_map {
 public:
  /// Returns the start of an unused range of `size` device addresses. The start is aligned for an allocation of this
  /// size. Returns nullopt if no range is left.
  std::optional<address> take_addresses(std::size_t size);
  bool is_device_address(address at) const { return at - arena_ < arena_size_; }

  range& add(range of);
  /// Removes a range, and unmaps the memory that the driver has mapped for that range.
  void remove(address start);

  /// Returns the range that contains address `at`, or nullptr.
  range* find(address at);
  /// Returns the first range that overlaps the `size` bytes at `start`, or nullptr.
  range* find_overlap(address start, std::size_t size);
  const std::map<address, range>& all() const { return ranges_; }

  /// Returns whether address `at` was device memory that has been freed.
  bool was_freed(address at) const;

  /// Returns the address at which the driver accesses the `size` bytes at `at`. The bytes may span several mappings if
  /// one reservation contains all of them. Returns nullptr if some of the bytes are in no range, or if they span ranges
  /// of other kinds. Also returns nullptr if a device in the bit mask `devices` has no access (0: no check).
  std::byte* locate(address at, std::size_t size, std::uint32_t devices);

  /// Returns the number of bytes that are allocated on a device.
  std::size_t used(int device) const;

 private:
  address arena_ = 0;
  std::size_t arena_size_ = 0;
  std::size_t taken_ = 0;
  std::uint64_t last_id_ = 0;
  std::map<address, range> ranges_;
  std::map<address, address> freed_;  ///< end of each freed range, by the start of the range
};

/// Maps a chunk for the driver, followed by an inaccessible page. Returns nullptr if no address space is left.
std::byte* map_alias(const chunk& of);

/// Returns whether the host may read all bytes of the range. If `for_writing` is set, the host must also be able to
/// write to all of them.
bool is_mapped(address start, std::size_t size, bool for_writing);

}  // namespace fake_cuda
