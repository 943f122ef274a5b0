// Implements modules and launches. The driver ignores the image of a module, and uses the emulated kernels that have
// the same names.
#include <algorithm>
#include <array>
#include <string>

#include "tests/support/fake_cuda/worker.h"

using namespace fake_cuda;

namespace {

/// Replaces a pointer argument of a kernel by the address at which the driver accesses the same memory. Returns false
/// if kernels on `device` cannot access the memory.
template <class Pointer>
bool translate(process& p, int device, Pointer& at) {
  if (at == nullptr) return true;
  const auto given = reinterpret_cast<address>(at);
  if (p.memory.was_freed(given)) misuse("a kernel uses freed device memory");
  at = reinterpret_cast<Pointer>(p.memory.locate(given, 1, 1U << static_cast<unsigned>(device)));
  return at != nullptr;
}

CUresult run_kernel(process& p, const lsched::emulated_kernel& kernel, lsched::device_arguments with, int device,
                    unsigned blocks, unsigned threads) {
  {
    const lock held(p.guard);
    const bool is_reachable = translate(p, device, with.a) && translate(p, device, with.b) &&
                              translate(p, device, with.c) && translate(p, device, with.workspace);
    if (!is_reachable && with.count != 0) return CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  kernel.run(with, blocks, threads);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return call("cuModuleLoadData", k_needs_context | k_unsafe_in_capture, [&](process& p, lock& held) {
    if (module == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CUcontext context = current_context(p);
    const CUresult answer = wait_for_device(p, held, context->device);
    if (answer != CUDA_SUCCESS) return answer;
    auto made = std::make_unique<CUmod_st>();
    made->context = context;
    *module = p.modules.add(std::move(made));
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleUnload(CUmodule module) {
  return call("cuModuleUnload", k_needs_context | k_unsafe_in_capture, [&](process& p, lock& held) {
    const CUmodule gone = p.modules.find(module, "a module");
    if (gone == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const CUresult answer = wait_for_device(p, held, gone->context->device);
    if (answer != CUDA_SUCCESS) return answer;
    for (CUfunction function : gone->functions) p.functions.retire(function);
    p.modules.retire(gone);
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  return call("cuModuleGetFunction", k_needs_context, [&](process& p, lock&) {
    const CUmodule in = p.modules.find(module, "a module");
    if (in == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const lsched::emulated_kernel* const kernel = p.find_kernel == nullptr ? nullptr : p.find_kernel(name);
    if (kernel == nullptr) return CUDA_ERROR_NOT_FOUND;
    auto made = std::make_unique<CUfunc_st>();
    made->module = in;
    made->kernel = kernel;
    *function = in->functions.emplace_back(p.functions.add(std::move(made)));
    return CUDA_SUCCESS;
  });
}

CUresult cuFuncLoad(CUfunction function) {
  return call("cuFuncLoad", k_needs_context, [&](process& p, lock&) {
    return p.functions.find(function, "a kernel") == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
  });
}

CUresult cuLaunchKernel(CUfunction function, unsigned blocks, unsigned blocks_y, unsigned blocks_z, unsigned threads,
                        unsigned threads_y, unsigned threads_z, unsigned /*shared_bytes*/, CUstream stream,
                        void** parameters, void** extra) {
  return call("cuLaunchKernel", k_needs_context | k_queues, [&](process& p, lock& held) {
    const CUstream in = stream_of(p, stream);
    const CUfunction launched = p.functions.find(function, "a kernel");
    if (in == nullptr || launched == nullptr || launched->module->context != in->context)
      return CUDA_ERROR_INVALID_HANDLE;
    const bool is_flat = blocks_y == 1 && blocks_z == 1 && threads_y == 1 && threads_z == 1;
    if (!is_flat) misuse("emulated kernels have one dimension");
    if (parameters == nullptr || extra != nullptr || blocks == 0 || threads == 0 || threads > 1024)
      return CUDA_ERROR_INVALID_VALUE;
    const auto with = *static_cast<const lsched::device_arguments*>(parameters[0]);
    work launch;
    launch.run = [&p, kernel = launched->kernel, with, device = in->context->device, blocks, threads] {
      return run_kernel(p, *kernel, with, device, blocks, threads);
    };
    const std::array<const void*, 4> addresses{with.a, with.b, with.c, with.workspace};
    for (const void* at : addresses)
      if (at != nullptr) launch.uses.emplace_back(reinterpret_cast<address>(at), 1);
    return enqueue(p, held, in, std::move(launch));
  });
}
