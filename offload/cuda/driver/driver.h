// The CUDA driver. libsched is not linked to the driver, but loads it at run time (docs/reference/device.md).
//
// Each function is requested in the version with which this code was compiled. The driver is loaded by the first call
// of load_cuda_driver(), and is never unloaded.
#pragma once

#include <cudaTypedefs.h>

#include <string_view>

#include "ops/status.h"

namespace lsched {

/// The oldest supported version of CUDA. Since this version, a stream can wait for a value in memory without a special
/// driver option.
inline constexpr int k_least_cuda_driver = 12000;

// Expands NAME(function, version of the function's interface) for each function that every supported driver has.
#define LSCHED_CUDA_FUNCTIONS(NAME)              \
  NAME(cuInit, 2000)                             \
  NAME(cuDeviceGetCount, 2000)                   \
  NAME(cuDeviceGet, 2000)                        \
  NAME(cuDeviceGetName, 2000)                    \
  NAME(cuDeviceGetUuid, 11040)                   \
  NAME(cuDevicePrimaryCtxRetain, 7000)           \
  NAME(cuDevicePrimaryCtxRelease, 11000)         \
  NAME(cuCtxPushCurrent, 4000)                   \
  NAME(cuCtxPopCurrent, 4000)                    \
  NAME(cuCtxGetCurrent, 4000)                    \
  NAME(cuCtxGetDevice, 2000)                     \
  NAME(cuCtxGetStreamPriorityRange, 5050)        \
  NAME(cuThreadExchangeStreamCaptureMode, 10010) \
  NAME(cuGetErrorName, 6000)                     \
  NAME(cuGetErrorString, 6000)                   \
  NAME(cuModuleLoadData, 2000)                   \
  NAME(cuModuleGetFunction, 2000)                \
  NAME(cuModuleUnload, 2000)                     \
  NAME(cuLaunchKernel, 4000)                     \
  NAME(cuMemAlloc, 3020)                         \
  NAME(cuMemFree, 3020)                          \
  NAME(cuMemHostAlloc, 2020)                     \
  NAME(cuMemFreeHost, 2000)                      \
  NAME(cuMemHostRegister, 6050)                  \
  NAME(cuMemHostUnregister, 4000)                \
  NAME(cuMemcpyAsync, 4000)                      \
  NAME(cuPointerGetAttributes, 7000)             \
  NAME(cuStreamCreateWithPriority, 5050)         \
  NAME(cuStreamDestroy, 4000)                    \
  NAME(cuStreamWaitEvent, 3020)                  \
  NAME(cuStreamIsCapturing, 10000)               \
  NAME(cuStreamGetCtx, 9020)                     \
  NAME(cuStreamWaitValue64, 11070)               \
  NAME(cuLaunchHostFunc, 10000)                  \
  NAME(cuEventCreate, 2000)                      \
  NAME(cuEventDestroy, 4000)                     \
  NAME(cuEventRecord, 2000)                      \
  NAME(cuEventQuery, 2000)

// Functions that some drivers or machines lack. Only benchmarks and tests call the last three functions. The pointer to
// a missing function is null.
#define LSCHED_CUDA_OPTIONAL_FUNCTIONS(NAME)  \
  NAME(cuFuncLoad, 12040)                     \
  NAME(cuIpcGetMemHandle, 4010)               \
  NAME(cuIpcOpenMemHandle, 11000)             \
  NAME(cuIpcCloseMemHandle, 4010)             \
  NAME(cuMemGetAllocationGranularity, 10020)  \
  NAME(cuMemCreate, 10020)                    \
  NAME(cuMemRelease, 10020)                   \
  NAME(cuMemAddressReserve, 10020)            \
  NAME(cuMemAddressFree, 10020)               \
  NAME(cuMemMap, 10020)                       \
  NAME(cuMemUnmap, 10020)                     \
  NAME(cuMemSetAccess, 10020)                 \
  NAME(cuMemExportToShareableHandle, 10020)   \
  NAME(cuMemImportFromShareableHandle, 10020) \
  NAME(cuDeviceGetAttribute, 2000)            \
  NAME(cuStreamSynchronize, 2000)             \
  NAME(cuStreamWriteValue64, 11070)

struct cuda_driver {
  int version = 0;  ///< version of CUDA, such as 13000
#define LSCHED_CUDA_MEMBER(function, interface) PFN_##function##_v##interface function = nullptr;
  LSCHED_CUDA_FUNCTIONS(LSCHED_CUDA_MEMBER)
  LSCHED_CUDA_OPTIONAL_FUNCTIONS(LSCHED_CUDA_MEMBER)
#undef LSCHED_CUDA_MEMBER
};

/// Loads and initialises the driver, if necessary. Every call returns the same object, or UNSUPPORTED with the reason
/// as text. Any thread may call this function.
result<const cuda_driver*> load_cuda_driver();

/// Returns the driver if the process has already loaded a usable driver, else nullptr. Any thread may call this
/// function.
const cuda_driver* find_cuda_driver();

/// Returns the driver that load_cuda_driver() or find_cuda_driver() has found, or nullptr. Costs one atomic load.
const cuda_driver* known_cuda_driver();

/// Converts a result of the driver to a status. DEVICE means that no later call of the driver can succeed.
status status_of(CUresult answer);

/// Describes the result of a call, for example "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (out of memory)".
failure failure_of(const cuda_driver& driver, std::string_view call, CUresult answer);

}  // namespace lsched
