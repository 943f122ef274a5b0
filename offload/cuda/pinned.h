// Pinned host memory, which devices can access. Pins are counted for all ranks of the process together, because the
// driver pins memory only once.
#pragma once

#include <cstddef>
#include <span>

#include "offload/cuda/driver/context.h"

namespace lsched {

/// Pins memory for all devices. The memory stays pinned until unpin() has been called once for each pin(). Memory must
/// not overlap other pinned memory partially. Returns UNSUPPORTED or NO_MEMORY if the system or the driver refuses. Any
/// thread may call this function. The call takes about 40 µs per MiB, or ten times as long if pages must be allocated.
status pin(const cuda_context& by, std::span<const std::byte> memory);

/// Undoes one pin(). The last unpin() of the memory waits for all work of the devices. Any thread may call this
/// function.
void unpin(const cuda_context& by, std::span<const std::byte> memory);

/// Keeps memory pinned until the process ends, even after unpin(), because a hung device may write to the memory.
/// Later, other memory at this address cannot be pinned. Any thread may call this function.
void keep_pinned(std::span<const std::byte> memory);

}  // namespace lsched
