// Device memory that other processes can be let in to: an allocation with a descriptor of the operating system's, or
// one that they cannot share where the driver has no such.
#pragma once

#include <memory>
#include <span>

#include "offload/cuda/driver/health.h"

namespace lsched {

class device_area {
 public:
  /// Of at least so many bytes. null: there is no memory left.
  static std::unique_ptr<device_area> allocate(const cuda_context& in, cuda_health& health, std::uint64_t bytes);

  /// Another process's, by a descriptor of this one, which is closed. null: it cannot be.
  static std::unique_ptr<device_area> import(const cuda_context& in, cuda_health& health, int descriptor,
                                             std::uint64_t bytes);

  /// Never waits, but of memory without a descriptor for what the device does.
  ~device_area();
  device_area(const device_area&) = delete;
  device_area& operator=(const device_area&) = delete;

  std::span<std::byte> memory() const { return {reinterpret_cast<std::byte*>(address_), bytes_}; }
  /// For other processes; -1: it has none.
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
