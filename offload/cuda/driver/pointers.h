// Classification of memory by its address. Results must not be cached, because memory can be freed, and its address
// reused, without notice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "offload/cuda/driver/driver.h"

namespace lsched {

/// Returns the memory space of [memory, memory + bytes): the host, or device `number`. Pinned memory, and managed
/// memory that the host can read, count as host memory. Returns CONSTRAINT for memory of another device. Returns
/// ARGUMENT if the memory was freed, or if its first and last byte are in memory of different kinds. If the driver
/// fails and the host cannot read the memory, returns the driver's error. Any thread may call this function, with or
/// without a current context.
result<memory_space> cuda_space_of(const cuda_driver& driver, std::int32_t number, const std::byte* memory,
                                   std::uint64_t bytes);

struct cuda_allocation {
  std::span<const std::byte> memory;
  unsigned long long number = 0;  ///< driver's id of the allocation, never reused in this process
};

/// Returns the allocation that contains the device address `memory`, or nothing if the driver does not know the
/// address.
std::optional<cuda_allocation> cuda_allocation_of(const cuda_driver& driver, const std::byte* memory);

/// Returns true if the memory belongs to any device. If the driver fails, returns true if the host cannot read the
/// memory.
bool is_cuda_memory(const cuda_driver& driver, const std::byte* memory);

}  // namespace lsched
