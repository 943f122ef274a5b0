// Whose memory a pointer leads to. Asked at every bind and never remembered: memory comes and goes unseen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "offload/cuda/driver/driver.h"

namespace lsched {

/// Where all of [memory, memory + bytes) is, for a rank whose device has that number: host (also pinned, and managed
/// where both sides may use it at a time) or device. CONSTRAINT: another device's. ARGUMENT: some of it is elsewhere
/// than the rest, or gone. As the driver answers, where it cannot tell and the
/// host cannot read it. Any thread; needs no context.
result<memory_space> cuda_space_of(const cuda_driver& driver, std::int32_t number, const std::byte* memory,
                                   std::uint64_t bytes);

/// An allocation of the driver's.
struct cuda_allocation {
  std::span<const std::byte> memory;
  unsigned long long number = 0;  ///< of no other one in the process's life
};

/// That which memory of a device is in; nothing: the driver does not say.
std::optional<cuda_allocation> cuda_allocation_of(const cuda_driver& driver, const std::byte* memory);

/// Whether the driver knows it as a device's, of any number; where it cannot tell, whether the host cannot read it.
bool is_cuda_memory(const cuda_driver& driver, const std::byte* memory);

}  // namespace lsched
