// The memory of the fake driver, by address.
//
// Device memory is a memfd that only the driver maps. Its public addresses come from an arena of PROT_NONE and are
// never reused. If the host accesses device memory, even after it was freed, the process crashes with a message
// (crash.h). Callers hold the driver's lock.
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

inline constexpr std::size_t k_capacity = std::size_t{80} << 30U;  ///< bytes per device
inline constexpr std::size_t k_granularity = std::size_t{2} << 20U;

enum class space { device, managed, host, registered };

/// Memory on a device, shared by all its mappings. Other processes map the memfd.
struct chunk {
  int fd = -1;
  std::size_t size = 0;
  int device = 0;
  CUmemAllocationProp properties{};  ///< set for VMM only

  chunk(int of_fd, std::size_t of_size, int of_device) : fd(of_fd), size(of_size), device(of_device) {}
  ~chunk();
  chunk(const chunk&) = delete;
  chunk& operator=(const chunk&) = delete;
};

/// Returns a new chunk of zeros, or nullptr if there is no memory.
std::shared_ptr<chunk> make_chunk(std::size_t size, int device);

/// Returns the chunk of a memfd that a fake driver has made in any process, and takes ownership of the descriptor.
/// Returns nullptr for any other descriptor.
std::shared_ptr<chunk> adopt_chunk(int fd);

/// One allocation, registration, or mapping of a handle.
struct range {
  address start = 0;
  std::size_t size = 0;
  space kind = space::device;
  int device = 0;
  CUcontext context = nullptr;  ///< null for VMM and pools
  std::uint32_t devices = 0;    ///< bit mask of devices with access
  std::byte* bytes = nullptr;   ///< address at which the driver accesses the range; null: VMM without access
  std::shared_ptr<chunk> backing;
  std::uint64_t id = 0;
  std::uint64_t opened = 0;  ///< number of opens of an import
  std::string origin;        ///< handle of an import
  address reservation = 0;   ///< start of the reservation that contains a VMM mapping; 0: not VMM

  bool holds(address from, std::size_t bytes_of_it) const {
    return from >= start && from - start <= size && bytes_of_it <= size - (from - start);
  }
  bool is_exportable() const { return kind == space::device && context != nullptr && origin.empty(); }
};

class memory_map {
 public:
  /// Returns unused addresses of device memory, aligned for an allocation of that size; nullopt if none are left.
  std::optional<address> take_addresses(std::size_t size);
  bool is_device_address(address at) const { return at - arena_ < arena_size_; }

  range& add(range of);
  /// Removes a range, and unmaps memory that the driver mapped for it.
  void remove(address start);

  /// Returns the range that holds that byte, or nullptr.
  range* find(address at);
  /// Returns the first range that overlaps these bytes, or nullptr.
  range* find_overlap(address start, std::size_t size);
  const std::map<address, range>& all() const { return ranges_; }

  /// Returns whether that byte was device memory and has been freed.
  bool was_freed(address at) const;

  /// Returns the address at which the driver accesses `size` bytes. The bytes may span mappings of one reservation.
  /// Returns nullptr if bytes are unknown, span other ranges, or are not accessible to all `devices` (a bit mask; 0: no
  /// check).
  std::byte* locate(address at, std::size_t size, std::uint32_t devices);

  /// Returns the bytes in use on a device.
  std::size_t used(int device) const;

 private:
  address arena_ = 0;
  std::size_t arena_size_ = 0;
  std::size_t taken_ = 0;
  std::uint64_t last_id_ = 0;
  std::map<address, range> ranges_;
  std::map<address, address> freed_;  ///< start and end
};

/// Maps a chunk for the driver, with an inaccessible page behind it. Returns nullptr if no address space is left.
std::byte* map_alias(const chunk& of);

/// Returns whether the host may read all of these bytes, and also write them if `for_writing`.
bool is_mapped(address start, std::size_t size, bool for_writing);

}  // namespace fake_cuda
