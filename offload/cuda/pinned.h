// Host memory that is pinned for a device, so that the device reads and writes it. The ranks of a process share that:
// the driver pins memory once.
#pragma once

#include <cstddef>
#include <span>

#include "offload/cuda/driver/context.h"

namespace lsched {

/// Pins memory for all devices, until as many unpin() it as have pinned it. Who pins parts of the process's memory that
/// overlap is refused. UNSUPPORTED, NO_MEMORY: the system or the driver does not allow it. Any thread; takes some 40 us
/// for a MiB that was touched before, and ten times as long for one that was not.
status pin(const cuda_context& by, std::span<const std::byte> memory);

/// Waits for what the devices do. Any thread.
void unpin(const cuda_context& by, std::span<const std::byte> memory);

/// It stays pinned until the process ends, whoever unpins it: a device that hangs may write there. What is at that
/// address later cannot be pinned. Any thread.
void keep_pinned(std::span<const std::byte> memory);

}  // namespace lsched
