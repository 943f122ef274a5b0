// Every piece of memory that the fake driver knows, by address.
//
// Device memory is a memfd that only the driver has mapped. The addresses handed out for it come from an arena of
// PROT_NONE that is never given to anybody twice, so the host cannot touch what they stand for: it crashes, with a line
// that says so (crash.h), also after the memory was freed. Callers hold the driver's lock.
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

inline constexpr std::size_t k_capacity = std::size_t{80} << 30U;  ///< of a device, in bytes
inline constexpr std::size_t k_granularity = std::size_t{2} << 20U;

enum class space { device, managed, host, registered };

/// Bytes on a device, shared by those who map them; other processes do so by the memfd.
struct chunk {
  int fd = -1;
  std::size_t size = 0;
  int device = 0;
  CUmemAllocationProp properties{};  ///< of VMM's

  chunk(int of_fd, std::size_t of_size, int of_device) : fd(of_fd), size(of_size), device(of_device) {}
  ~chunk();
  chunk(const chunk&) = delete;
  chunk& operator=(const chunk&) = delete;
};

/// New ones, of zeros. nullptr: the device has no room.
std::shared_ptr<chunk> make_chunk(std::size_t size, int device);

/// Of a memfd of the fake driver, in whatever process it was made; takes the descriptor. nullptr: it is none.
std::shared_ptr<chunk> adopt_chunk(int fd);

/// One allocation, registration, or mapping of a handle.
struct range {
  address start = 0;
  std::size_t size = 0;
  space kind = space::device;
  int device = 0;
  CUcontext context = nullptr;  ///< null: of VMM and pools
  std::uint32_t devices = 0;    ///< that may access it, by bit
  std::byte* bytes = nullptr;   ///< where the driver reads and writes it; null: VMM without access
  std::shared_ptr<chunk> backing;
  std::uint64_t id = 0;
  std::uint64_t opened = 0;  ///< times, of an import
  std::string origin;        ///< of an import: its handle
  address reservation = 0;   ///< of VMM: whose part it is

  bool holds(address from, std::size_t bytes_of_it) const {
    return from >= start && from - start <= size && bytes_of_it <= size - (from - start);
  }
  bool is_exportable() const { return kind == space::device && context != nullptr && origin.empty(); }
};

class memory_map {
 public:
  /// Addresses of device memory, aligned as an allocation of that size is. nullopt: none are left.
  std::optional<address> take_addresses(std::size_t size);
  bool is_device_address(address at) const { return at - arena_ < arena_size_; }

  range& add(range of);
  /// What the driver mapped for it is unmapped.
  void remove(address start);

  /// The one that holds that byte; nullptr: none.
  range* find(address at);
  /// The first that has a byte of these; nullptr: none.
  range* find_overlap(address start, std::size_t size);
  const std::map<address, range>& all() const { return ranges_; }

  /// Those bytes were device memory and are no more.
  bool was_freed(address at) const;

  /// Where the driver finds `size` bytes, which may be several handles of one reservation. nullptr: they are not all
  /// known, straddle two pieces, or those devices (by bit; 0: does not matter) have no access.
  std::byte* locate(address at, std::size_t size, std::uint32_t devices);

  /// Bytes of a device that are in use.
  std::size_t used(int device) const;

 private:
  address arena_ = 0;
  std::size_t arena_size_ = 0;
  std::size_t taken_ = 0;
  std::uint64_t last_id_ = 0;
  std::map<address, range> ranges_;
  std::map<address, address> freed_;  ///< start and end
};

/// Where only the driver sees the chunk, with a page behind it that crashes. nullptr: no address space is left.
std::byte* map_alias(const chunk& of);

/// The host may read, or write too, all of these bytes.
bool is_mapped(address start, std::size_t size, bool for_writing);

}  // namespace fake_cuda
