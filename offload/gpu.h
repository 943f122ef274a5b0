// A rank's GPU. The implementation is in offload/cuda, the only folder that uses CUDA. (docs/reference/device.md)
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "libsched/engine/device.h"
#include "libsched/transport/endpoint.h"
#include "ops/status.h"

namespace lsched {

/// Device memory that other ranks of the node may read directly.
/// `never`: none. `own`: memory that this library has allocated. `always`: also memory that others have allocated,
/// which the driver may unmap for readers when its owner frees the memory or dies.
enum class peer_reads : std::uint8_t { never, own, always };

struct gpu_choice {
  /// The driver's device number; -1: the device of the caller's current context, else by `local_rank`.
  std::int32_t number = -1;
  std::uint32_t local_rank = 0;  ///< index of this rank among the ranks of its machine
  peer_reads peers = peer_reads::own;
  /// Streams wait for rounds, if the device supports that; false: the host waits.
  bool streams_wait = true;
  std::uint64_t staging_bytes = 0;  ///< pinned memory that is reserved for messages; more is allocated on demand
};

/// Opens the GPU and loads the kernels, which takes up to some seconds. Does not touch the caller's streams. Any
/// thread. `net` provides the memory that peers read, and must outlive the device.
/// UNSUPPORTED: the build has no CUDA, or no usable driver or GPU was found; the text names the cause. ARGUMENT: no
/// such GPU. NO_MEMORY. DEVICE.
result<std::unique_ptr<device>> open_gpu(const gpu_choice& which, endpoint& net);

/// Returns whether the memory is on a GPU. Works also in a process that has opened no GPU here. Any thread.
bool is_gpu_memory(const void* memory, std::uint64_t bytes);

/// Returns whether any of the non-null places is GPU memory. For frequent calls: only an atomic load if no driver was
/// loaded at the last call of look_for_gpu() or of another function here. Any thread.
bool is_known_gpu_memory(std::span<const void* const> places);
void look_for_gpu();

}  // namespace lsched
