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
/// allocated. `always`: also memory that other code has allocated. The driver may unmap such memory for readers when
/// the owner of the memory frees it or dies.
enum class peer_reads : std::uint8_t { never, own, always };

struct gpu_choice {
  /// The driver's device number. -1: the device of the caller's current context; without a current context,
  /// `local_rank` selects the device.
  std::int32_t number = -1;
  std::uint32_t local_rank = 0;  ///< index of this rank among the ranks of its machine
  peer_reads peers = peer_reads::own;
  /// True: streams wait for rounds, if the device supports such waits. False: the host waits.
  bool streams_wait = true;
  std::uint64_t staging_bytes = 0;  ///< bytes of pinned memory reserved for messages; more is allocated on demand
};

/// Opens the GPU and loads the kernels, which takes up to some seconds. Does not touch the caller's streams. Any
/// thread. `net` provides the memory that peers read, and must outlive the device.
/// UNSUPPORTED: the build has no CUDA, or no usable driver or GPU was found; the text names the cause. ARGUMENT: no
/// such GPU. NO_MEMORY. DEVICE.
result<std::unique_ptr<device>> open_gpu(const gpu_choice& which, endpoint& net);

/// Returns whether the memory is on a GPU. Also works before the first call of open_gpu() in this process. Any thread.
bool is_gpu_memory(const void* memory, std::uint64_t bytes);

/// Returns whether any non-null pointer in `places` points to GPU memory. For frequent calls: if no CUDA driver was
/// loaded at the last call of look_for_gpu(), open_gpu() or is_gpu_memory(), the function only loads an atomic
/// variable. Any thread.
bool is_known_gpu_memory(std::span<const void* const> places);
void look_for_gpu();

}  // namespace lsched
