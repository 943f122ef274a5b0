#include "offload/cuda/driver/driver.h"

#include <dlfcn.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <string>

namespace lsched {
namespace {

constexpr const char* k_library = "libcuda.so.1";

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

failure unsupported(std::string why) { return {status::unsupported, "CUDA cannot be used: " + std::move(why)}; }

/// Looks up all functions in the loaded library `library`.
std::optional<failure> find_functions(void* library, cuda_driver& into) {
  const auto version_of = reinterpret_cast<PFN_cuDriverGetVersion_v2020>(dlsym(library, "cuDriverGetVersion"));
  const auto address_of = reinterpret_cast<PFN_cuGetProcAddress_v12000>(dlsym(library, "cuGetProcAddress_v2"));
  if (version_of == nullptr || version_of(&into.version) != CUDA_SUCCESS || into.version < k_least_cuda_driver ||
      address_of == nullptr)
    return unsupported("the driver supports CUDA " + version_text(into.version) + ", but CUDA " +
                       version_text(k_least_cuda_driver) + " is needed: update the NVIDIA driver");
  const auto find = [&](const char* name, int version) {
    void* found = nullptr;
    CUdriverProcAddressQueryResult how{};
    const CUresult answer = address_of(name, &found, version, CU_GET_PROC_ADDRESS_DEFAULT, &how);
    return answer == CUDA_SUCCESS ? found : nullptr;
  };
#define LSCHED_CUDA_FIND(function, interface) \
  into.function = reinterpret_cast<PFN_##function##_v##interface>(find(#function, interface));
#define LSCHED_CUDA_NEED(function, interface) \
  if (into.function == nullptr) return unsupported("the driver has no " #function ": update the NVIDIA driver");
  LSCHED_CUDA_FUNCTIONS(LSCHED_CUDA_FIND)
  LSCHED_CUDA_OPTIONAL_FUNCTIONS(LSCHED_CUDA_FIND)
  LSCHED_CUDA_FUNCTIONS(LSCHED_CUDA_NEED)
#undef LSCHED_CUDA_FIND
#undef LSCHED_CUDA_NEED
  return std::nullopt;
}

struct loaded_driver {
  std::mutex guard;
  cuda_driver functions;
  bool is_loaded = false;
  std::optional<failure> why;                       ///< the reason why the driver cannot be used, if it cannot
  std::atomic<const cuda_driver*> usable{nullptr};  ///< pointer to `functions`; null if they cannot be called
};

constinit loaded_driver the_one;

/// Loads the library by dlopen with `flags`. Returns false if dlopen fails.
bool load(loaded_driver& into, int flags) {
  if (into.is_loaded) return true;
  void* const library = dlopen(k_library, flags);
  if (library == nullptr) return false;
  into.is_loaded = true;
  into.why = find_functions(library, into.functions);
  if (into.why) return true;
  if (const CUresult answer = into.functions.cuInit(0); answer != CUDA_SUCCESS) {
    into.why = unsupported(failure_of(into.functions, "cuInit", answer).text);
  } else {
    into.usable.store(&into.functions);
  }
  return true;
}

}  // namespace

result<const cuda_driver*> load_cuda_driver() {
  loaded_driver& one = the_one;
  const std::lock_guard lock(one.guard);
  if (!load(one, RTLD_NOW)) {
    const char* const why = dlerror();
    return unsupported(why == nullptr ? "there is no libcuda.so.1: install the NVIDIA driver" : why);
  }
  if (one.why) return *one.why;
  return &one.functions;
}

const cuda_driver* find_cuda_driver() {
  if (const cuda_driver* const known = known_cuda_driver()) return known;
  loaded_driver& one = the_one;
  const std::lock_guard lock(one.guard);
  (void)load(one, RTLD_NOW | RTLD_NOLOAD);
  return one.usable.load();
}

const cuda_driver* known_cuda_driver() { return the_one.usable.load(std::memory_order_acquire); }

status status_of(CUresult answer) {
  switch (answer) {
    case CUDA_SUCCESS: return status::ok;
    case CUDA_ERROR_NOT_READY: return status::pending;
    case CUDA_ERROR_OUT_OF_MEMORY: return status::no_memory;
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_DEVICE:
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_INVALID_HANDLE: return status::argument;
    case CUDA_ERROR_STUB_LIBRARY:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_NOT_PERMITTED:
    case CUDA_ERROR_NOT_SUPPORTED:
    case CUDA_ERROR_SYSTEM_NOT_READY:
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
    case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
    case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
    case CUDA_ERROR_STREAM_CAPTURE_MERGE:
    case CUDA_ERROR_STREAM_CAPTURE_UNMATCHED:
    case CUDA_ERROR_STREAM_CAPTURE_UNJOINED:
    case CUDA_ERROR_STREAM_CAPTURE_ISOLATION:
    case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
    case CUDA_ERROR_CAPTURED_EVENT:
    case CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD: return status::unsupported;
    default: return status::device;
  }
}

failure failure_of(const cuda_driver& driver, std::string_view call, CUresult answer) {
  const char* name = nullptr;
  const char* words = nullptr;
  std::string text = std::string(call) + ": ";
  if (driver.cuGetErrorName == nullptr || driver.cuGetErrorName(answer, &name) != CUDA_SUCCESS || name == nullptr)
    return {status_of(answer), text + "error " + std::to_string(static_cast<int>(answer))};
  text += name;
  if (driver.cuGetErrorString(answer, &words) == CUDA_SUCCESS && words != nullptr)
    text += std::string(" (") + words + ")";
  return {status_of(answer), text};
}

}  // namespace lsched
