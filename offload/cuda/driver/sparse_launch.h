// Launches for jobs on sparse vectors (ops/sparse_job.h): the functions to launch, their grids and their order. No
// function of this file calls the driver.
#pragma once

#include <array>
#include <span>

#include "offload/cuda/driver/launch.h"
#include "offload/cuda/kernels/arguments.h"
#include "ops/sparse_job.h"

namespace lsched {

struct device_launch {
  std::uint32_t function = k_no_device_function;  ///< index in device_symbols()
  device_grid grid{};
  device_arguments with{};
};

/// A sequence of launches, which a stream executes in order.
class launch_list {
 public:
  void add(const device_launch& next) { all_[count_++] = next; }
  std::span<const device_launch> all() const& { return {all_.data(), count_}; }
  void all() && = delete;  // the span would outlive the list

 private:
  std::array<device_launch, 16> all_{};
  std::size_t count_ = 0;
};

/// Returns a launch that sets `bytes` bytes to zero.
device_launch launch_of_clearing(void* memory, std::uint64_t bytes);

/// Returns the size of the workspace of a selection from `count` elements. The workspace must be device memory aligned
/// for u64.
std::uint64_t selection_workspace_bytes(std::uint64_t count);

/// Returns the launches of a job. A selection needs a workspace of selection_workspace_bytes(count) bytes. If k or
/// count is 0, the launches do not write *found, and the caller must set *found to 0.
launch_list launches_of(const sparse_selection& job, void* workspace);
launch_list launches_of(const sparse_settlement& job);

}  // namespace lsched
