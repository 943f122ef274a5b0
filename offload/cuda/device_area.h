// Device memory that other processes can open by a file descriptor, if the driver supports such descriptors.
#pragma once

#include <memory>
#include <span>

#include "offload/cuda/driver/health.h"

namespace lsched {

class device_area {
 public:
  /// Allocates at least `bytes` bytes. Returns null if no memory is left.
  static std::unique_ptr<device_area> allocate(const cuda_context& in, cuda_health& health, std::uint64_t bytes);

  /// Maps device memory of another process. `descriptor` is a descriptor in this process that refers to the memory. The
  /// function closes the descriptor. Returns null on failure.
  static std::unique_ptr<device_area> import(const cuda_context& in, cuda_health& health, int descriptor,
                                             std::uint64_t bytes);

  /// Frees the memory. If the memory has no descriptor, waits for the device.
  ~device_area();
  device_area(const device_area&) = delete;
  device_area& operator=(const device_area&) = delete;

  std::span<std::byte> memory() const { return {reinterpret_cast<std::byte*>(address_), bytes_}; }
  /// Returns the descriptor by which other processes can open the memory, or -1 if the memory has no descriptor.
  int descriptor() const { return descriptor_; }

 private:
  explicit device_area(const cuda_context& in) : in_(in) {}
  bool make(cuda_health& health, std::uint64_t bytes);
  bool map(cuda_health& health, std::uint64_t bytes);

  const cuda_context& in_;
  CUdeviceptr address_ = 0;
  std::uint64_t bytes_ = 0;
  CUmemGenericAllocationHandle handle_ = 0;
  int descriptor_ = -1;
  bool has_handle_ = false, is_mapped_ = false;
};

}  // namespace lsched
