// Finds functions by name and version (cuGetProcAddress) for programs that are not linked to a driver.
#include <cstring>
#include <string_view>

#include "offload/cuda/driver/driver.h"
#include "tests/support/fake_cuda/process.h"

using namespace fake_cuda;

namespace {

struct entry {
  std::string_view name;
  int version;  ///< CUDA version that introduced the function; later versions have the function, too, unless
                ///< is_another() is true
  void* function;
};

// User programs call these functions. The library does not call them.
#define FAKE_CUDA_USERS_FUNCTIONS(NAME) \
  NAME(cuDriverGetVersion, 2020)        \
  NAME(cuDeviceGetUuid, 11040)          \
  NAME(cuCtxSynchronize, 2000)          \
  NAME(cuMemAllocManaged, 6000)         \
  NAME(cuMemAllocAsync, 11020)          \
  NAME(cuMemFreeAsync, 11020)           \
  NAME(cuMemHostGetDevicePointer, 3020) \
  NAME(cuPointerGetAttribute, 4000)     \
  NAME(cuStreamQuery, 2000)             \
  NAME(cuStreamBeginCapture, 10010)     \
  NAME(cuStreamEndCapture, 10000)       \
  NAME(cuGraphDestroy, 10000)           \
  NAME(cuEventSynchronize, 2000)

// The static_cast checks each function against the type of pointer through which programs call the function.
#define FAKE_CUDA_ENTRY(function, interface) \
  {#function, interface, reinterpret_cast<void*>(static_cast<PFN_##function##_v##interface>(&function))},

const entry k_entries[] = {LSCHED_CUDA_FUNCTIONS(FAKE_CUDA_ENTRY) LSCHED_CUDA_OPTIONAL_FUNCTIONS(FAKE_CUDA_ENTRY)
                               FAKE_CUDA_USERS_FUNCTIONS(FAKE_CUDA_ENTRY)};

/// Returns whether the function has other parameters in CUDA version `version`. CUDA 13 added a context parameter to
/// two functions. The fake driver has only the earlier interface.
bool is_another(std::string_view name, int version) {
  return version >= 13000 && (name == "cuCtxGetDevice" || name == "cuCtxSynchronize");
}

}  // namespace

CUresult cuGetProcAddress(const char* name, void** function, int version, cuuint64_t /*flags*/,
                          CUdriverProcAddressQueryResult* how) {
  return call("cuGetProcAddress", k_before_init | k_always, [&](process& p, lock&) {
    *function = nullptr;
    if (how != nullptr) *how = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    for (const entry& one : k_entries) {
      if (one.name != name || one.version > p.settings.version || p.settings.missing.count(one.name) != 0 ||
          is_another(one.name, version))
        continue;
      if (how != nullptr) *how = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
      if (version < one.version) continue;
      if (how != nullptr) *how = CU_GET_PROC_ADDRESS_SUCCESS;
      *function = one.function;
    }
    return *function == nullptr ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
  });
}
