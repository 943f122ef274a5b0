// How jobs of sparse vectors (ops/sparse_job.h) are launched: which functions of the device image, on which grids, in
// which order. Nothing here calls the driver.
#pragma once

#include <array>
#include <span>

#include "offload/cuda/driver/launch.h"
#include "offload/cuda/kernels/arguments.h"
#include "ops/sparse_job.h"

namespace lsched {

struct device_launch {
  std::uint32_t function = k_no_device_function;  ///< place in device_symbols()
  device_grid grid{};
  device_arguments with{};
};

/// Launches, one behind the other in a stream.
class launch_list {
 public:
  void add(const device_launch& next) { all_[count_++] = next; }
  std::span<const device_launch> all() const { return {all_.data(), count_}; }

 private:
  std::array<device_launch, 16> all_{};
  std::size_t count_ = 0;
};

/// So many bytes become zero.
device_launch launch_of_clearing(void* memory, std::uint64_t bytes);

/// Of device memory, aligned for u64, for a selection of vectors of so many elements.
std::uint64_t selection_workspace_bytes(std::uint64_t count);

/// The launches of a job. A selection needs a workspace, and finds nothing by itself where there is nothing to select:
/// then *found is the caller's to set to 0.
launch_list launches_of(const sparse_selection& job, void* workspace);
launch_list launches_of(const sparse_settlement& job);

}  // namespace lsched
