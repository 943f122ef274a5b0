// Pinned host memory, which devices read and write. Pins are counted for all ranks of the process together, because the
// driver pins memory only once.
#pragma once

#include <cstddef>
#include <span>

#include "offload/cuda/driver/context.h"

namespace lsched {

/// Pins memory for all devices until unpin() has been called as often as pin(). Memory that overlaps other pinned
/// memory is refused. UNSUPPORTED, NO_MEMORY: the system or the driver does not allow it. Any thread. Takes about 40 µs
/// for a MiB of touched memory, and ten times as long for untouched memory.
status pin(const cuda_context& by, std::span<const std::byte> memory);

/// Ends one pin(). The last unpin() of the memory waits for all work of the devices. Any thread.
void unpin(const cuda_context& by, std::span<const std::byte> memory);

/// Keeps memory pinned until the process ends, despite unpin(), because a hung device may write to the memory. Other
/// memory at that address cannot be pinned later. Any thread.
void keep_pinned(std::span<const std::byte> memory);

}  // namespace lsched
