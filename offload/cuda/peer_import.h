// Device memory of another rank that uses the same device, mapped into this process.
#pragma once

#include <memory>

#include "libsched/transport/endpoint.h"
#include "offload/cuda/device_area.h"

namespace lsched {

class peer_import {
 public:
  /// Opens an area of this device that a rank exposes. The rank may be in this process. Returns null if the area cannot
  /// be opened; `health` then has the reason.
  static std::unique_ptr<peer_import> open(const cuda_context& in, cuda_health& health, const exposed_area& what);

  /// Closes the import. The driver may wait for all work of the device.
  ~peer_import();
  peer_import(const peer_import&) = delete;
  peer_import& operator=(const peer_import&) = delete;

  const std::byte* memory() const { return memory_; }
  std::uint64_t bytes() const { return bytes_; }
  /// Returns true if the area belongs to this process, so that the driver has nothing to close.
  bool is_of_this_process() const { return shared_ == nullptr && legacy_ == 0; }

 private:
  friend class import_closer;
  peer_import(const cuda_context& in, std::uint64_t bytes) : in_(in), bytes_(bytes) {}
  bool open_shared(cuda_health& health, const exposed_area& what);
  bool open_legacy(cuda_health& health, const exposed_area& what);

  const cuda_context& in_;
  const std::byte* memory_ = nullptr;
  const std::uint64_t bytes_;
  std::unique_ptr<device_area> shared_;  ///< memory that was opened by a descriptor
  CUdeviceptr legacy_ = 0;               ///< memory that was opened by a handle of the older interface
  std::unique_ptr<peer_import> next_;    ///< next import in the list of import_closer
};

}  // namespace lsched
