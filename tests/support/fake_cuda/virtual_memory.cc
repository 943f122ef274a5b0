// Implements virtual memory management (VMM): reserved ranges of addresses, handles of memory, and mappings of handles
// into reserved ranges.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/fake_cuda/worker.h"

using namespace fake_cuda;

namespace {

bool is_whole(std::size_t size) { return size != 0 && size % k_granularity == 0; }

bool is_supported(const process& p, const CUmemAllocationProp& properties) {
  return properties.type == CU_MEM_ALLOCATION_TYPE_PINNED && properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
         properties.location.id >= 0 && properties.location.id < p.settings.devices &&
         (properties.requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE ||
          properties.requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
}

CUmemGenericAllocationHandle give_out(process& p, std::shared_ptr<chunk> of) {
  p.handles[++p.last_handle] = std::move(of);
  return p.last_handle;
}

/// Returns the start and the data of the reservation that contains the whole range, or nullptr.
const std::pair<const address, vmm_reservation>* reservation_of(const process& p, address at, std::size_t size) {
  const auto next = p.reservations.upper_bound(at);
  if (next == p.reservations.begin()) return nullptr;
  const auto& found = *std::prev(next);
  const std::size_t offset = at - found.first;
  return offset <= found.second.size && size <= found.second.size - offset ? &found : nullptr;
}

/// Calls `each` with every mapping in the range of `size` addresses at `at`. If the range has gaps or contains only a
/// part of a mapping, returns false and does not call `each`.
template <class Each>
bool for_mappings(process& p, address at, std::size_t size, Each&& each) {
  std::vector<address> starts;
  for (address next = at; next != at + size;) {
    const range* const of = p.memory.find(next);
    if (of == nullptr || of->start != next || of->reservation == 0 || of->size > at + size - next) return false;
    starts.push_back(next);
    next += of->size;
  }
  for (const address start : starts) each(*p.memory.find(start));
  return true;
}

}  // namespace

CUresult cuMemGetAllocationGranularity(std::size_t* size, const CUmemAllocationProp* properties,
                                       CUmemAllocationGranularity_flags /*option*/) {
  return call("cuMemGetAllocationGranularity", k_anywhere, [&](process& p, lock&) {
    if (size == nullptr || properties == nullptr || !is_supported(p, *properties)) return CUDA_ERROR_INVALID_VALUE;
    *size = k_granularity;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, std::size_t size, const CUmemAllocationProp* properties,
                     unsigned long long flags) {
  return call("cuMemCreate", k_anywhere, [&](process& p, lock&) {
    if (handle == nullptr || properties == nullptr || !is_whole(size) || flags != 0 || !is_supported(p, *properties))
      return CUDA_ERROR_INVALID_VALUE;
    const int device = properties->location.id;
    if (size > k_capacity - p.memory.used(device)) return CUDA_ERROR_OUT_OF_MEMORY;
    std::shared_ptr<chunk> made = make_chunk(size, device);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    made->handle_types = properties->requestedHandleTypes;
    *handle = give_out(p, std::move(made));
    return CUDA_SUCCESS;
  });
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return call("cuMemRelease", k_anywhere, [&](process& p, lock&) {
    const auto found = p.handles.find(handle);
    if (found == p.handles.end() && handle != 0 && handle <= p.last_handle)
      misuse("a memory handle is used after it was destroyed");
    if (found == p.handles.end()) return CUDA_ERROR_INVALID_VALUE;
    p.handles.erase(found);  // existing mappings keep the memory
    return CUDA_SUCCESS;
  });
}

CUresult cuMemAddressReserve(CUdeviceptr* at, std::size_t size, std::size_t alignment, CUdeviceptr /*wish*/,
                             unsigned long long flags) {
  return call("cuMemAddressReserve", k_anywhere, [&](process& p, lock&) {
    if (at == nullptr || !is_whole(size) || flags != 0 || alignment > k_granularity) return CUDA_ERROR_INVALID_VALUE;
    const std::optional<address> start = p.memory.take_addresses(size);
    void* const alias = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!start || alias == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    p.reservations[*start] = {size, static_cast<std::byte*>(alias)};
    *at = *start;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemAddressFree(CUdeviceptr at, std::size_t size) {
  return call("cuMemAddressFree", k_anywhere, [&](process& p, lock&) {
    const auto found = p.reservations.find(at);
    if (found == p.reservations.end() || found->second.size != size || p.memory.find_overlap(at, size) != nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    munmap(found->second.alias, size);
    p.reservations.erase(found);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemMap(CUdeviceptr at, std::size_t size, std::size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  return call("cuMemMap", k_anywhere, [&](process& p, lock&) {
    const auto found = p.handles.find(handle);
    const auto* const in = reservation_of(p, at, size);
    if (found == p.handles.end() || in == nullptr || offset != 0 || flags != 0 || !is_whole(size) ||
        at % k_granularity != 0 || size > found->second->size || p.memory.find_overlap(at, size) != nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    range made;
    made.start = at;
    made.size = size;
    made.device = found->second->device;
    made.backing = found->second;
    made.reservation = in->first;
    p.memory.add(std::move(made));
    return CUDA_SUCCESS;
  });
}

CUresult cuMemSetAccess(CUdeviceptr at, std::size_t size, const CUmemAccessDesc* rights, std::size_t count) {
  return call("cuMemSetAccess", k_anywhere, [&](process& p, lock&) {
    const auto* const in = reservation_of(p, at, size);
    std::uint32_t devices = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const CUmemLocation& where = rights[i].location;
      if (where.type != CU_MEM_LOCATION_TYPE_DEVICE || where.id < 0 || where.id >= p.settings.devices)
        return CUDA_ERROR_INVALID_VALUE;
      if (rights[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) devices |= 1U << static_cast<unsigned>(where.id);
    }
    bool is_there = in != nullptr;
    const bool is_whole_mappings = is_there && for_mappings(p, at, size, [&](range& of) {
                                     std::byte* const alias = in->second.alias + (of.start - in->first);
                                     is_there =
                                         is_there && mmap(alias, of.size, PROT_READ | PROT_WRITE,
                                                          MAP_SHARED | MAP_FIXED, of.backing->fd, 0) != MAP_FAILED;
                                     of.bytes = alias;
                                     of.devices = devices;
                                   });
    return is_there && is_whole_mappings ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuMemUnmap(CUdeviceptr at, std::size_t size) {
  return call("cuMemUnmap", k_anywhere, [&](process& p, lock&) {
    if (is_used(p, at, size)) misuse("cuMemUnmap of memory that queued work uses");
    std::vector<address> starts;
    const auto* const in = reservation_of(p, at, size);
    if (in == nullptr || !for_mappings(p, at, size, [&](const range& of) { starts.push_back(of.start); }))
      return CUDA_ERROR_INVALID_VALUE;
    for (const address start : starts) p.memory.remove(start);
    mmap(in->second.alias + (at - in->first), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
         -1, 0);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemExportToShareableHandle(void* into, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                                      unsigned long long flags) {
  return call("cuMemExportToShareableHandle", k_anywhere, [&](process& p, lock&) {
    const auto found = p.handles.find(handle);
    if (into == nullptr || found == p.handles.end() || flags != 0 || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
        (found->second->handle_types & type) == 0)
      return CUDA_ERROR_INVALID_VALUE;
    const int fd = fcntl(found->second->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
    *static_cast<int*>(into) = fd;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* from,
                                        CUmemAllocationHandleType type) {
  return call("cuMemImportFromShareableHandle", k_anywhere, [&](process& p, lock&) {
    const int fd = fcntl(static_cast<int>(reinterpret_cast<std::intptr_t>(from)), F_DUPFD_CLOEXEC, 0);
    if (fd < 0 || handle == nullptr || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
      return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<chunk> of = adopt_chunk(fd);
    if (!of || of->device >= p.settings.devices) return CUDA_ERROR_INVALID_VALUE;
    of->handle_types = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    *handle = give_out(p, std::move(of));
    return CUDA_SUCCESS;
  });
}
