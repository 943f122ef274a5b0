// A rank's GPU. The implementation is in offload/cuda, the only folder that uses CUDA. (docs/reference/device.md)
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "libsched/engine/device.h"
#include "libsched/transport/endpoint.h"
#include "ops/status.h"

namespace lsched {

/// Device memory that other ranks of the node may read directly. `never`: none. `own`: memory that this library has
/// allocated. `always`: also memory that other code has allocated, although the driver may unmap such memory for
/// readers when its owner frees it or dies.
enum class peer_reads : std::uint8_t { never, own, always };

struct gpu_choice {
  /// The driver's device number. -1 selects the device of the caller's current context or, without a context, the
  /// device given by `local_rank`.
  std::int32_t number = -1;
  std::uint32_t local_rank = 0;  ///< index of this rank among the ranks of its machine
  peer_reads peers = peer_reads::own;
  /// If true, and if the device supports such waits, streams wait for rounds. Otherwise the host waits.
  bool streams_wait = true;
  std::uint64_t staging_bytes = 0;  ///< initial size of pinned memory for messages; more is allocated on demand
};

/// Opens the GPU and loads the kernels, which can take seconds. Any thread. `net` provides the memory that peers read,
/// and must outlive the device. Returns UNSUPPORTED if this build has no CUDA, or if no usable driver or GPU was found;
/// the text names the cause. Returns ARGUMENT if there is no GPU with this number, and NO_MEMORY or DEVICE for other
/// errors of the driver.
result<std::unique_ptr<device>> open_gpu(const gpu_choice& which, endpoint& net);

/// Returns true if the memory is on a GPU. May be called before open_gpu(). Any thread.
bool is_gpu_memory(const void* memory, std::uint64_t bytes);

/// Returns true if any non-null pointer in `places` points to GPU memory. Fast: if no CUDA driver was loaded at the
/// last call of look_for_gpu(), open_gpu() or is_gpu_memory(), only an atomic variable is read. Any thread.
bool is_known_gpu_memory(std::span<const void* const> places);
void look_for_gpu();

}  // namespace lsched
