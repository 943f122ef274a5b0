// Memory of another rank on the device, where this process finds it.
#pragma once

#include <memory>

#include "libsched/transport/endpoint.h"
#include "offload/cuda/device_area.h"

namespace lsched {

class peer_import {
 public:
  /// Of an area of this device, also of this process. null: it cannot be opened, as the health's words say.
  static std::unique_ptr<peer_import> open(const cuda_context& in, cuda_health& health,
                                           const endpoint::device_area& what);

  /// Closes it: the driver may wait for all that the device does.
  ~peer_import();
  peer_import(const peer_import&) = delete;
  peer_import& operator=(const peer_import&) = delete;

  const std::byte* memory() const { return memory_; }
  std::uint64_t bytes() const { return bytes_; }
  /// Whether there is nothing to close.
  bool is_of_this_process() const { return shared_ == nullptr && legacy_ == 0; }

 private:
  friend class import_closer;
  peer_import(const cuda_context& in, std::uint64_t bytes) : in_(in), bytes_(bytes) {}
  bool open_shared(cuda_health& health, const endpoint::device_area& what);
  bool open_legacy(cuda_health& health, const endpoint::device_area& what);

  const cuda_context& in_;
  const std::byte* memory_ = nullptr;
  const std::uint64_t bytes_;
  std::unique_ptr<device_area> shared_;  ///< by a descriptor
  CUdeviceptr legacy_ = 0;               ///< by an older handle
  std::unique_ptr<peer_import> next_;    ///< among those to be closed
};

}  // namespace lsched
