// Allocates and registers memory. As in a real driver, a call that frees or unregisters memory first waits until the
// device has completed all queued work.
#include <sys/mman.h>

#include "tests/support/fake_cuda/worker.h"

using namespace fake_cuda;

namespace {

std::uint32_t only(int device) { return 1U << static_cast<unsigned>(device); }

/// Allocates device memory in the current context, or in the memory pool of that context's device.
CUresult allocate(process& p, CUdeviceptr* at, std::size_t size, bool is_of_pool) {
  const CUcontext context = current_context(p);
  if (at == nullptr || size == 0) return CUDA_ERROR_INVALID_VALUE;
  if (size > k_capacity - p.memory.used(context->device)) return CUDA_ERROR_OUT_OF_MEMORY;
  range made;
  made.size = size;
  made.device = context->device;
  made.context = is_of_pool ? nullptr : context;
  made.devices = only(context->device);
  made.backing = make_chunk(size, context->device);
  made.bytes = made.backing ? map_alias(*made.backing) : nullptr;
  const std::optional<address> start = p.memory.take_addresses(size);
  if (made.bytes == nullptr || !start) return CUDA_ERROR_OUT_OF_MEMORY;
  made.start = *start;
  *at = p.memory.add(std::move(made)).start;
  return CUDA_SUCCESS;
}

/// Allocates memory that the host and every device can access.
CUresult allocate_shared(process& p, address* at, std::size_t size, space kind) {
  if (at == nullptr || size == 0) return CUDA_ERROR_INVALID_VALUE;
  void* const place = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  range made;
  made.start = reinterpret_cast<address>(place);
  made.size = size;
  made.kind = kind;
  made.device = current_context(p)->device;
  made.context = current_context(p);
  made.devices = ~0U;
  made.bytes = static_cast<std::byte*>(place);
  *at = p.memory.add(std::move(made)).start;
  return CUDA_SUCCESS;
}

/// Waits until the device has completed all queued work. Then frees or unregisters a range.
CUresult give_back(process& p, lock& held, const char* name, const range& of) {
  const address start = of.start;
  const std::size_t size = of.size;
  const auto check_unused = [&] {
    if (is_used(p, start, size)) misuse(std::string(name) + " of memory that queued work uses");
  };
  check_unused();
  const std::uint64_t generation = p.generation;
  const CUresult answer = wait_for_device(p, held, of.device);
  if (answer != CUDA_SUCCESS) return answer;
  if (p.generation != generation) return CUDA_ERROR_DEINITIALIZED;  // a reset during the wait has freed everything
  check_unused();
  if (p.memory.find(start) == nullptr) misuse(std::string(name) + " of the same memory by two threads");
  p.memory.remove(start);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuMemAlloc(CUdeviceptr* at, std::size_t size) {
  return call("cuMemAlloc", k_needs_context | k_unsafe_in_capture,
              [&](process& p, lock&) { return allocate(p, at, size, false); });
}

CUresult cuMemAllocManaged(CUdeviceptr* at, std::size_t size, unsigned flags) {
  return call("cuMemAllocManaged", k_needs_context | k_unsafe_in_capture, [&](process& p, lock&) {
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST) return CUDA_ERROR_INVALID_VALUE;
    address start = 0;
    const CUresult answer = allocate_shared(p, at == nullptr ? nullptr : &start, size, space::managed);
    if (answer == CUDA_SUCCESS) *at = start;
    return answer;
  });
}

CUresult cuMemFree(CUdeviceptr at) {
  return call("cuMemFree", k_needs_context | k_unsafe_in_capture, [&](process& p, lock& held) {
    if (at == 0) return CUDA_SUCCESS;
    if (p.memory.was_freed(at)) misuse("cuMemFree of memory that was freed");
    const range* const of = p.memory.find(at);
    const bool is_ours = of != nullptr && of->start == at && of->reservation == 0 && of->origin.empty() &&
                         (of->kind == space::device || of->kind == space::managed);
    return is_ours ? give_back(p, held, "cuMemFree", *of) : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuMemAllocAsync(CUdeviceptr* at, std::size_t size, CUstream stream) {
  return call("cuMemAllocAsync", k_needs_context, [&](process& p, lock&) {
    return stream_of(p, stream) == nullptr ? CUDA_ERROR_INVALID_HANDLE : allocate(p, at, size, true);
  });
}

CUresult cuMemFreeAsync(CUdeviceptr at, CUstream stream) {
  return call("cuMemFreeAsync", k_needs_context | k_queues, [&](process& p, lock& held) {
    const CUstream in = stream_of(p, stream);
    const range* const of = p.memory.find(at);
    if (p.memory.was_freed(at)) misuse("cuMemFreeAsync of memory that was freed");
    if (in == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (of == nullptr || of->start != at || !of->backing || of->reservation != 0) return CUDA_ERROR_INVALID_VALUE;
    work frees;
    frees.run = [&p, at] {
      const lock again(p.guard);
      if (p.memory.find(at) != nullptr) p.memory.remove(at);
      return CUDA_SUCCESS;
    };
    return enqueue(p, held, in, std::move(frees));
  });
}

CUresult cuMemHostAlloc(void** at, std::size_t size, unsigned /*flags*/) {
  return call("cuMemHostAlloc", k_needs_context | k_unsafe_in_capture, [&](process& p, lock&) {
    address start = 0;
    const CUresult answer = allocate_shared(p, at == nullptr ? nullptr : &start, size, space::host);
    if (answer == CUDA_SUCCESS) *at = reinterpret_cast<void*>(start);
    return answer;
  });
}

CUresult cuMemFreeHost(void* at) {
  return call("cuMemFreeHost", k_needs_context | k_unsafe_in_capture, [&](process& p, lock& held) {
    const range* const of = p.memory.find(reinterpret_cast<address>(at));
    const bool is_ours = of != nullptr && of->bytes == at && of->kind == space::host;
    return is_ours ? give_back(p, held, "cuMemFreeHost", *of) : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuMemHostRegister(void* at, std::size_t size, unsigned /*flags*/) {
  return call("cuMemHostRegister", k_needs_context | k_unsafe_in_capture, [&](process& p, lock&) {
    range made;
    made.start = reinterpret_cast<address>(at);
    if (size == 0 || p.memory.is_device_address(made.start)) return CUDA_ERROR_INVALID_VALUE;
    if (p.memory.find_overlap(made.start, size) != nullptr) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    if (!is_mapped(made.start, size, false)) return CUDA_ERROR_INVALID_VALUE;
    made.size = size;
    made.kind = space::registered;
    made.device = current_context(p)->device;
    made.context = current_context(p);
    made.devices = ~0U;
    made.bytes = static_cast<std::byte*>(at);
    p.memory.add(std::move(made));
    return CUDA_SUCCESS;
  });
}

CUresult cuMemHostUnregister(void* at) {
  return call("cuMemHostUnregister", k_needs_context | k_unsafe_in_capture, [&](process& p, lock& held) {
    const range* const of = p.memory.find(reinterpret_cast<address>(at));
    const bool is_ours = of != nullptr && of->bytes == at && of->kind == space::registered;
    return is_ours ? give_back(p, held, "cuMemHostUnregister", *of) : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  });
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr* device, void* at, unsigned flags) {
  return call("cuMemHostGetDevicePointer", k_needs_context, [&](process& p, lock&) {
    const range* const of = p.memory.find(reinterpret_cast<address>(at));
    if (of == nullptr || flags != 0 || of->kind == space::device) return CUDA_ERROR_INVALID_VALUE;
    *device = reinterpret_cast<CUdeviceptr>(at);
    return CUDA_SUCCESS;
  });
}
