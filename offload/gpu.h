// A rank's GPU (docs/reference/device.md). The implementation is in offload/cuda, the only folder that uses CUDA.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "libsched/engine/device.h"
#include "libsched/transport/endpoint.h"
#include "ops/status.h"

namespace lsched {

/// Selects the device memory that other ranks of the node may read directly. With `never`, they read no device memory.
/// With `own`, they read memory that this library has allocated. With `always`, they also read memory that other code
/// has allocated. When the rank that exposes such memory frees the memory or dies, the driver may unmap the memory for
/// readers.
enum class peer_reads : std::uint8_t { never, own, always };

struct gpu_choice {
  /// The driver's device number. -1 selects the device of the caller's current context. Without a context, -1 selects a
  /// device by `local_rank`.
  std::int32_t number = -1;
  std::uint32_t local_rank = 0;  ///< index of this rank among the ranks of its machine
  peer_reads peers = peer_reads::own;
  /// If true, streams wait for rounds, provided that the device supports such waits. Otherwise the host waits.
  bool streams_wait = true;
  std::uint64_t staging_bytes = 0;  ///< initial size of pinned memory for messages; more is allocated on demand
};

/// Opens the GPU and loads the kernels, which can take seconds. Any thread may call this function. `net` provides the
/// memory that peers read, and must outlive the device. Returns UNSUPPORTED if this build has no CUDA, or if no usable
/// driver or GPU was found; the text names the cause. Returns ARGUMENT if there is no GPU with this number, and
/// NO_MEMORY or DEVICE for other errors of the driver.
result<std::unique_ptr<device>> open_gpu(const gpu_choice& which, endpoint& net);

/// Returns true if the memory is on a GPU. May be called before open_gpu(). Any thread may call this function.
bool is_gpu_memory(const void* memory, std::uint64_t bytes);

/// Returns true if any non-null pointer in `places` points to GPU memory. This function is fast: if no CUDA driver was
/// loaded at the last call of look_for_gpu(), open_gpu() or is_gpu_memory(), it reads only an atomic variable. Any
/// thread may call this function.
bool is_known_gpu_memory(std::span<const void* const> places);
void look_for_gpu();

}  // namespace lsched
