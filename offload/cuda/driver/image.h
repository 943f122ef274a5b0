// The device image contains all kernels (offload/cuda/kernels), compiled for the architectures of the build. Its format
// is that of cuModuleLoadData. The image is embedded in the library.
#pragma once

#include <cstddef>
#include <span>

extern "C" {
extern const std::byte lsched_device_image[];
extern const std::byte lsched_device_image_end[];
}

namespace lsched {

inline std::span<const std::byte> device_image() { return {lsched_device_image, lsched_device_image_end}; }

}  // namespace lsched
