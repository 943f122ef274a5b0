// Devices, contexts, and information about the driver.
#include <array>
#include <cstdio>
#include <cstring>
#include <map>

#include "tests/support/fake_cuda/errors.h"
#include "tests/support/fake_cuda/process.h"
#include "tests/support/fake_cuda/worker.h"

using namespace fake_cuda;

namespace {

bool is_device(const process& p, CUdevice device) { return device >= 0 && device < p.settings.devices; }

/// Returns an attribute of a device. The default values are those of an H100, except for a small number of
/// multiprocessors, because kernels run on the host. FAKE_CUDA_ATTRIBUTES replaces defaults.
int attribute_of(const process& p, CUdevice_attribute attribute, CUdevice device) {
  if (const auto said = p.settings.attributes.find(attribute); said != p.settings.attributes.end()) return said->second;
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: return 4;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X: return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: return 0x7FFFFFFF;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: return 32;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return 9;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT: return 3;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: return 50 << 20;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: return device + 1;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR:
    case CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED: return 1;
    default: return 0;
  }
}

}  // namespace

CUresult cuInit(unsigned flags) {
  return call("cuInit", k_before_init, [&](process& p, lock&) {
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (p.settings.devices == 0) return CUDA_ERROR_NO_DEVICE;
    p.is_initialised = true;
    return CUDA_SUCCESS;
  });
}

CUresult cuDriverGetVersion(int* version) {
  return call("cuDriverGetVersion", k_before_init | k_always, [&](process& p, lock&) {
    *version = p.settings.version;
    return CUDA_SUCCESS;
  });
}

CUresult cuGetErrorName(CUresult answer, const char** text) {
  return call("cuGetErrorName", k_before_init | k_always, [&](process&, lock&) {
    const error_text* const found = text_of(answer);
    *text = found == nullptr ? nullptr : found->name.c_str();
    return found == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  });
}

CUresult cuGetErrorString(CUresult answer, const char** text) {
  return call("cuGetErrorString", k_before_init | k_always, [&](process&, lock&) {
    const error_text* const found = text_of(answer);
    *text = found == nullptr ? nullptr : found->words.c_str();
    return found == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetCount(int* count) {
  return call("cuDeviceGetCount", k_anywhere, [&](process& p, lock&) {
    *count = p.settings.devices;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  return call("cuDeviceGet", k_anywhere, [&](process& p, lock&) {
    if (!is_device(p, ordinal)) return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  return call("cuDeviceGetName", k_anywhere, [&](process& p, lock&) {
    if (!is_device(p, device)) return CUDA_ERROR_INVALID_DEVICE;
    if (length <= 0) return CUDA_ERROR_INVALID_VALUE;
    std::snprintf(name, static_cast<std::size_t>(length), "fake device %d", device);
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  return call("cuDeviceGetUuid", k_anywhere, [&](process& p, lock&) {
    if (!is_device(p, device)) return CUDA_ERROR_INVALID_DEVICE;
    const std::array<char, sizeof uuid->bytes> bytes{'f', 'a', 'k', 'e', static_cast<char>(device)};
    std::memcpy(uuid->bytes, bytes.data(), bytes.size());
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  return call("cuDeviceGetAttribute", k_anywhere, [&](process& p, lock&) {
    if (!is_device(p, device)) return CUDA_ERROR_INVALID_DEVICE;
    *value = attribute_of(p, attribute, device);
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return call("cuDevicePrimaryCtxRetain", k_anywhere, [&](process& p, lock&) {
    if (!is_device(p, device)) return CUDA_ERROR_INVALID_DEVICE;
    *context = p.contexts[static_cast<std::size_t>(device)].get();
    ++(*context)->retained;
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  return call("cuDevicePrimaryCtxRelease", k_anywhere, [&](process& p, lock&) {
    if (!is_device(p, device)) return CUDA_ERROR_INVALID_DEVICE;
    CUctx_st& context = *p.contexts[static_cast<std::size_t>(device)];
    if (context.retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
    --context.retained;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxPushCurrent(CUcontext context) {
  return call("cuCtxPushCurrent", k_anywhere, [&](process& p, lock&) {
    for (const auto& one : p.contexts) {
      if (one.get() != context || one->retained == 0) continue;
      current_context(p);  // drops contexts that the thread pushed before a reset
      this_thread().contexts.push_back(context);
      return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_CONTEXT;
  });
}

CUresult cuCtxPopCurrent(CUcontext* context) {
  return call("cuCtxPopCurrent", k_anywhere, [&](process& p, lock&) {
    const CUcontext current = current_context(p);
    if (current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (context != nullptr) *context = current;
    this_thread().contexts.pop_back();
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  return call("cuCtxGetCurrent", k_anywhere, [&](process& p, lock&) {
    *context = current_context(p);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetDevice(CUdevice* device) {
  return call("cuCtxGetDevice", k_anywhere, [&](process& p, lock&) {
    const CUcontext current = current_context(p);  // programs call this function to test whether a context is current
    if (current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    *device = current->device;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return call("cuCtxGetStreamPriorityRange", k_needs_context, [&](process&, lock&) {
    if (least != nullptr) *least = 0;
    if (greatest != nullptr) *greatest = -5;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxSynchronize() {
  return call("cuCtxSynchronize", k_needs_context | k_unsafe_in_capture,
              [&](process& p, lock& held) { return wait_for_device(p, held, current_context(p)->device); });
}
