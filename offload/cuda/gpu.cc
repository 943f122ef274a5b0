#include "offload/gpu.h"

#include <algorithm>

#include "offload/cuda/cuda_device.h"
#include "offload/cuda/driver/pointers.h"

namespace lsched {
namespace {

std::optional<std::int32_t> current_device(const cuda_driver& driver) {
  CUcontext in_use = nullptr;
  CUdevice number = 0;
  if (driver.cuCtxGetCurrent(&in_use) != CUDA_SUCCESS || in_use == nullptr) return std::nullopt;
  if (driver.cuCtxGetDevice(&number) != CUDA_SUCCESS) return std::nullopt;
  return number;
}

failure no_gpu(const failure& why) {
  const bool is_worse = why.code == status::no_memory || why.code == status::device;
  return {is_worse ? why.code : status::unsupported, "CUDA cannot be used: " + why.text};
}

/// Converts a failure of the driver to a failure of attach. An ARGUMENT error becomes DEVICE, because it does not refer
/// to an argument of the caller.
failure no_device(failure why) {
  if (why.code != status::unsupported && why.code != status::no_memory) why.code = status::device;
  return why;
}

}  // namespace

result<std::unique_ptr<device>> open_gpu(const gpu_choice& which, endpoint& net) {
  const auto driver = load_cuda_driver();
  if (!driver) return driver.error();
  int devices = 0;
  if (const CUresult answer = (*driver)->cuDeviceGetCount(&devices); answer != CUDA_SUCCESS)
    return no_gpu(failure_of(**driver, "cuDeviceGetCount", answer));
  if (devices == 0) return no_gpu({status::unsupported, "the driver finds no GPU: check CUDA_VISIBLE_DEVICES"});
  if (which.number < -1 || which.number >= devices)
    return failure{status::argument, "device " + std::to_string(which.number) + " does not exist: use 0 to " +
                                         std::to_string(devices - 1)};
  const auto by_rank = static_cast<std::int32_t>(which.local_rank % static_cast<std::uint32_t>(devices));
  const std::int32_t number = which.number >= 0 ? which.number : current_device(**driver).value_or(by_rank);
  auto made = cuda_device::open(**driver, number, which, net);
  if (!made) return no_device(made.error());
  return made;
}

bool is_gpu_memory(const void* memory, std::uint64_t bytes) {
  look_for_gpu();
  return bytes != 0 && is_known_gpu_memory({&memory, 1});
}

bool is_known_gpu_memory(std::span<const void* const> places) {
  const cuda_driver* const driver = known_cuda_driver();
  return driver != nullptr && std::ranges::any_of(places, [&](const void* one) {
           return one != nullptr && is_cuda_memory(*driver, static_cast<const std::byte*>(one));
         });
}

void look_for_gpu() { (void)find_cuda_driver(); }

}  // namespace lsched
