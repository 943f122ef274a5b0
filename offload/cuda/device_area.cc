#include "offload/cuda/device_area.h"

#include <unistd.h>

namespace lsched {
namespace {

CUmemAllocationProp properties_of(const cuda_context& in) {
  CUmemAllocationProp made{};
  made.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  made.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  made.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  made.location.id = in.number();
  return made;
}

/// Returns the driver's unit of allocation for memory with descriptors, or 0 if the driver does not support such
/// memory.
std::uint64_t granularity_of(const cuda_context& in) {
  const cuda_driver& driver = in.driver();
  const bool has_all = driver.cuMemCreate != nullptr && driver.cuMemRelease != nullptr &&
                       driver.cuMemAddressReserve != nullptr && driver.cuMemAddressFree != nullptr &&
                       driver.cuMemMap != nullptr && driver.cuMemUnmap != nullptr && driver.cuMemSetAccess != nullptr &&
                       driver.cuMemExportToShareableHandle != nullptr &&
                       driver.cuMemImportFromShareableHandle != nullptr;
  if (!has_all || driver.cuMemGetAllocationGranularity == nullptr) return 0;
  const CUmemAllocationProp what = properties_of(in);
  std::size_t bytes = 0;
  const CUresult answer = driver.cuMemGetAllocationGranularity(&bytes, &what, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
  return answer == CUDA_SUCCESS ? bytes : 0;
}

}  // namespace

std::unique_ptr<device_area> device_area::allocate(const cuda_context& in, cuda_health& health, std::uint64_t bytes) {
  const cuda_scope here(in);
  if (!health.note("cuCtxPushCurrent", here.answer())) return nullptr;
  std::unique_ptr<device_area> made(new device_area(in));
  if (const std::uint64_t grain = granularity_of(in); grain != 0) {
    if (made->make(health, (bytes + grain - 1) / grain * grain)) return made;
    made.reset(new device_area(in));
  }
  if (!health.note("cuMemAlloc", in.driver().cuMemAlloc(&made->address_, bytes))) return nullptr;
  made->bytes_ = bytes;
  return made;
}

bool device_area::make(cuda_health& health, std::uint64_t bytes) {
  const CUmemAllocationProp what = properties_of(in_);
  has_handle_ = health.note("cuMemCreate", in_.driver().cuMemCreate(&handle_, bytes, &what, 0));
  return has_handle_ &&
         health.note("cuMemExportToShareableHandle",
                     in_.driver().cuMemExportToShareableHandle(&descriptor_, handle_,
                                                               CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)) &&
         map(health, bytes);
}

std::unique_ptr<device_area> device_area::import(const cuda_context& in, cuda_health& health, int descriptor,
                                                 std::uint64_t bytes) {
  const cuda_scope here(in);
  std::unique_ptr<device_area> made(new device_area(in));
  CUresult answer = here.answer();
  if (answer == CUDA_SUCCESS && granularity_of(in) == 0) answer = CUDA_ERROR_NOT_SUPPORTED;
  void* const shared = reinterpret_cast<void*>(static_cast<std::uintptr_t>(descriptor));
  if (answer == CUDA_SUCCESS)
    answer =
        in.driver().cuMemImportFromShareableHandle(&made->handle_, shared, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  close(descriptor);
  made->has_handle_ = health.note("cuMemImportFromShareableHandle", answer);
  return made->has_handle_ && made->map(health, bytes) ? std::move(made) : nullptr;
}

bool device_area::map(cuda_health& health, std::uint64_t bytes) {
  const cuda_driver& driver = in_.driver();
  if (!health.note("cuMemAddressReserve", driver.cuMemAddressReserve(&address_, bytes, 0, 0, 0))) return false;
  bytes_ = bytes;
  is_mapped_ = health.note("cuMemMap", driver.cuMemMap(address_, bytes, 0, handle_, 0));
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = in_.number();
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return is_mapped_ && health.note("cuMemSetAccess", driver.cuMemSetAccess(address_, bytes, &access, 1));
}

device_area::~device_area() {
  if (descriptor_ >= 0) close(descriptor_);
  const cuda_scope here(in_);
  if (!here.is_entered()) return;
  const cuda_driver& driver = in_.driver();
  if (!has_handle_) {
    if (address_ != 0) (void)driver.cuMemFree(address_);
    return;
  }
  if (is_mapped_) (void)driver.cuMemUnmap(address_, bytes_);
  if (address_ != 0) (void)driver.cuMemAddressFree(address_, bytes_);
  (void)driver.cuMemRelease(handle_);
}

}  // namespace lsched
