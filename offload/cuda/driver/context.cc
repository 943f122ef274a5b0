#include "offload/cuda/driver/context.h"

#include <cstring>

#include "offload/cuda/driver/image.h"

namespace lsched {

result<std::unique_ptr<cuda_context>> cuda_context::open(const cuda_driver& driver, std::int32_t number) {
  CUdevice found = 0;
  if (const CUresult answer = driver.cuDeviceGet(&found, number); answer != CUDA_SUCCESS)
    return failure_of(driver, "cuDeviceGet", answer);
  std::unique_ptr<cuda_context> made(new cuda_context(driver, found, number));
  if (const CUresult answer = driver.cuDevicePrimaryCtxRetain(&made->handle_, found); answer != CUDA_SUCCESS)
    return failure_of(driver, "cuDevicePrimaryCtxRetain", answer);
  if (auto why = made->load()) return *why;
  return made;
}

std::optional<failure> cuda_context::load() {
  const cuda_scope here(*this);
  if (!here.is_entered()) return failure_of(driver_, "cuCtxPushCurrent", here.answer());
  std::array<char, 96> words{};
  if (driver_.cuDeviceGetName(words.data(), static_cast<int>(words.size()), device_) == CUDA_SUCCESS)
    name_ = words.data();
  CUuuid number{};
  if (const CUresult answer = driver_.cuDeviceGetUuid(&number, device_); answer != CUDA_SUCCESS)
    return failure_of(driver_, "cuDeviceGetUuid", answer);
  std::memcpy(uuid_.data(), number.bytes, uuid_.size());
  if (const CUresult answer = driver_.cuModuleLoadData(&image_, device_image().data()); answer != CUDA_SUCCESS)
    return failure_of(driver_, "cuModuleLoadData of libsched's kernels", answer);
  for (const device_symbol& symbol : device_symbols()) {
    CUfunction found = nullptr;
    CUresult answer = driver_.cuModuleGetFunction(&found, image_, symbol.c_str());
    if (answer == CUDA_SUCCESS && driver_.cuFuncLoad != nullptr) answer = driver_.cuFuncLoad(found);
    if (answer != CUDA_SUCCESS) return failure_of(driver_, std::string("cannot load ") + symbol.c_str(), answer);
    functions_.push_back(found);
  }
  return std::nullopt;
}

// Errors are ignored, because the driver may already be unloaded at the end of the process.
cuda_context::~cuda_context() {
  if (handle_ == nullptr) return;
  if (image_ != nullptr) {
    const cuda_scope here(*this);
    if (here.is_entered()) (void)driver_.cuModuleUnload(image_);
  }
  (void)driver_.cuDevicePrimaryCtxRelease(device_);
}

}  // namespace lsched
