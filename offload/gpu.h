// A rank's GPU: opened where this build and this machine have what it takes. What stands behind it is in offload/cuda;
// no other code knows CUDA. (docs/reference/device.md)
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "libsched/engine/device.h"
#include "libsched/transport/endpoint.h"
#include "ops/status.h"

namespace lsched {

/// Whose device memory ranks of a node read: none; what this library has allocated; or also what others have, which the
/// driver may end for readers when its owner frees it or dies.
enum class peer_reads : std::uint8_t { never, own, always };

struct gpu_choice {
  std::int32_t number = -1;      ///< the driver's; -1: that of the caller's current context, else by `local_rank`
  std::uint32_t local_rank = 0;  ///< place of this rank among those of its machine
  peer_reads peers = peer_reads::own;
  bool streams_wait = true;         ///< if they can; false: who lets a stream wait for a round waits himself
  std::uint64_t staging_bytes = 0;  ///< pinned memory that is reserved for messages; more is taken if they need more
};

/// UNSUPPORTED: a build without CUDA, no driver, too old a one, no GPU; the text says which. ARGUMENT: no such GPU.
/// NO_MEMORY, DEVICE. Any thread; takes up to seconds, in which kernels are loaded. Touches no stream of the caller's.
/// `net`, which outlives it, gives memory that peers read.
result<std::unique_ptr<device>> open_gpu(const gpu_choice& which, endpoint& net);

/// Whether memory is a GPU's, in a process that may have opened none here, but has loaded a driver. Any thread.
bool is_gpu_memory(const void* memory, std::uint64_t bytes);

/// Whether that is so of any of several places, null ones left out, for calls that are made often: a load where no
/// driver was known when look_for_gpu() or one of the others here was called last. Any thread.
bool is_known_gpu_memory(std::span<const void* const> places);
void look_for_gpu();

}  // namespace lsched
