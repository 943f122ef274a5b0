#include "offload/cuda/driver/pointers.h"

#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

namespace lsched {
namespace {

struct pointer_facts {
  unsigned type = 0;  ///< CUmemorytype; 0: the driver does not know the address
  unsigned is_managed = 0;
  int device = -1;
};

/// Queries the driver about an address. An unknown address is not an error.
result<pointer_facts> facts_of(const cuda_driver& driver, const std::byte* memory) {
  std::array asked{CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  pointer_facts found;
  std::array<void*, 3> into{&found.type, &found.is_managed, &found.device};
  const CUresult answer = driver.cuPointerGetAttributes(static_cast<unsigned>(asked.size()), asked.data(), into.data(),
                                                        reinterpret_cast<CUdeviceptr>(memory));
  if (answer != CUDA_SUCCESS) return failure_of(driver, "cuPointerGetAttributes", answer);
  return found;
}

bool is_of_device(const pointer_facts& found) { return found.type == CU_MEMORYTYPE_DEVICE && found.is_managed == 0; }

/// Returns true if the host can read the byte at `place`. The host cannot read, for example, freed device memory.
bool is_readable(const std::byte* place) {
  std::byte seen{};
  const iovec into{&seen, 1}, from{const_cast<std::byte*>(place), 1};
  return process_vm_readv(getpid(), &into, 1, &from, 1, 0) == 1 || errno != EFAULT;
}

failure argument(std::string why) { return {status::argument, std::move(why)}; }

}  // namespace

result<memory_space> cuda_space_of(const cuda_driver& driver, std::int32_t number, const std::byte* memory,
                                   std::uint64_t bytes) {
  if (memory == nullptr || bytes == 0) return memory_space::host;
  const std::byte* const last = memory + bytes - 1;
  const auto begin = facts_of(driver, memory), end = facts_of(driver, last);
  if (!begin || !end) {  // the driver has failed; schedules over host memory must still work
    if (is_readable(memory) && is_readable(last)) return memory_space::host;
    return begin ? end.error() : begin.error();
  }
  if (is_of_device(*begin) != is_of_device(*end) || begin->is_managed != end->is_managed)
    return argument("a buffer exceeds the end of the allocation in which the buffer begins: check pointer and count");
  if (!is_of_device(*begin)) {
    if (is_readable(memory) && is_readable(last)) return memory_space::host;
    return argument("a buffer is neither host nor device memory: check the pointer, and whether the memory was freed");
  }
  if (begin->device == number && end->device == number) return memory_space::device;
  return failure{status::constraint, "a buffer is in memory of device " +
                                         std::to_string(begin->device == number ? end->device : begin->device) +
                                         ", but this rank uses device " + std::to_string(number) +
                                         ": pass memory of this device"};
}

std::optional<cuda_allocation> cuda_allocation_of(const cuda_driver& driver, const std::byte* memory) {
  std::array asked{CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                   CU_POINTER_ATTRIBUTE_BUFFER_ID};
  CUdeviceptr begin = 0;
  std::size_t bytes = 0;
  unsigned long long number = 0;
  std::array<void*, 3> into{&begin, &bytes, &number};
  const CUresult answer = driver.cuPointerGetAttributes(static_cast<unsigned>(asked.size()), asked.data(), into.data(),
                                                        reinterpret_cast<CUdeviceptr>(memory));
  if (answer != CUDA_SUCCESS || begin == 0 || number == 0) return std::nullopt;
  return cuda_allocation{{reinterpret_cast<const std::byte*>(begin), bytes}, number};
}

bool is_cuda_memory(const cuda_driver& driver, const std::byte* memory) {
  const auto found = facts_of(driver, memory);
  return found ? is_of_device(*found) : !is_readable(memory);
}

}  // namespace lsched
