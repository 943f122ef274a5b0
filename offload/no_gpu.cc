// Stubs for a build without CUDA. A build with CUDA compiles offload/cuda instead.
#include "offload/gpu.h"

namespace lsched {

result<std::unique_ptr<device>> open_gpu(const gpu_choice&, endpoint&) {
  return failure{status::unsupported, "this build of libsched has no CUDA: install a build with CUDA"};
}

bool is_gpu_memory(const void*, std::uint64_t) { return false; }

bool is_known_gpu_memory(std::span<const void* const>) { return false; }

void look_for_gpu() {}

}  // namespace lsched
