// Performs copies. The two addresses determine the kind of a copy.
#include <cstring>

#include "tests/support/fake_cuda/worker.h"

using namespace fake_cuda;

namespace {

struct side {
  std::byte* bytes = nullptr;  ///< address at which the driver accesses the memory; null if the memory is not
                               ///< accessible
  bool is_pageable = false;
};

/// Returns the bytes of one side of a copy. Memory that the driver does not know is pageable if the host may access all
/// of the bytes. Memory that spans two ranges of the driver is not accessible.
side side_at(process& p, address at, std::size_t size, bool for_writing) {
  if (p.memory.was_freed(at)) misuse("a copy of freed device memory");
  if (p.memory.is_device_address(at) || p.memory.find_overlap(at, size) != nullptr)
    return {p.memory.locate(at, size, 0), false};
  return {is_mapped(at, size, for_writing) ? reinterpret_cast<std::byte*>(at) : nullptr, true};
}

}  // namespace

CUresult cuMemcpyAsync(CUdeviceptr into, CUdeviceptr from, std::size_t size, CUstream stream) {
  return call("cuMemcpyAsync", k_needs_context | k_queues, [&](process& p, lock& held) {
    const CUstream in = stream_of(p, stream);
    if (in == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (size == 0) return CUDA_SUCCESS;
    const side target = side_at(p, into, size, true);
    const side source = side_at(p, from, size, false);
    if (target.bytes == nullptr || source.bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
    work copies;
    copies.run = [=] {
      std::memmove(target.bytes, source.bytes, size);
      return CUDA_SUCCESS;
    };
    copies.uses = {{into, size}, {from, size}};
    const CUresult answer = enqueue(p, held, in, std::move(copies));
    // As on hardware, the call returns only after the copy has read or written pageable memory.
    if (answer != CUDA_SUCCESS || in->capture || (!target.is_pageable && !source.is_pageable)) return answer;
    return wait_for_stream(p, held, in);
  });
}
