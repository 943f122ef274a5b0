// Tests control the fake driver by these functions. They are C functions with the prefix `fake_cuda_` in the fake
// libcuda.so.1. Tests find the functions by dlsym. Other drivers do not have them. options.h describes how to run a
// program under the fake driver.
#pragma once

#include <cuda.h>
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/offload/cuda/emulated.h"

namespace lsched::testing {

using kernel_finder = const emulated_kernel* (*)(std::string_view name);

// NAME(function, result, parameters). Any thread may call these functions, except inside a host function of a stream.
//   fail          adds faults, written as in FAKE_CUDA_FAIL. The n-th call means the n-th call after this call of
//                 `fail`
//   reset         waits for running work, drops all queued work, and reads the environment again. Afterwards all
//                 handles are invalid, all memory is freed, and the calling thread has no context
//   calls         returns the number of calls of `function` since the start or the last reset
//   leaks         returns the number of leaks and writes one line for each leak into `text`, truncated to `size` bytes.
//                 Returns 0 after a sticky error, because the program cannot free anything then
//   set_kernels   sets the function that finds kernels by name; null restores the initial function
//   hold          stops all streams until go_on() or step(). Calls that wait for the device block during that time
//   go_on         ends hold()
//   step          while streams are held: runs one entry of `stream`, or of any stream if `any` is set. Returns 0 if no
//                 entry was ready
//   hold_stream   `is_held` 1: stops `stream`; 0: lets `stream` continue
//   pending       returns the number of incomplete entries of `stream`
//   read, write   copy from or to device memory. They return 0 if the address is not in device memory
#define FAKE_CUDA_CONTROL(NAME)                                     \
  NAME(fail, void, (const char* rules))                             \
  NAME(reset, void, ())                                             \
  NAME(calls, std::uint64_t, (const char* function))                \
  NAME(leaks, std::size_t, (char* text, std::size_t size))          \
  NAME(set_kernels, void, (kernel_finder finder))                   \
  NAME(hold, void, ())                                              \
  NAME(go_on, void, ())                                             \
  NAME(step, int, (CUstream stream, int any))                       \
  NAME(hold_stream, void, (CUstream stream, int is_held))           \
  NAME(pending, std::size_t, (CUstream stream))                     \
  NAME(read, int, (void* into, CUdeviceptr from, std::size_t size)) \
  NAME(write, int, (CUdeviceptr into, const void* from, std::size_t size))

struct fake_cuda_control {
#define FAKE_CUDA_MEMBER(name, answer, takes) answer(*name) takes = nullptr;
  FAKE_CUDA_CONTROL(FAKE_CUDA_MEMBER)
#undef FAKE_CUDA_MEMBER

  /// Returns one line for each leak, or an empty string if there is no leak.
  std::string leaked() const {
    std::string text(1U << 16U, '\0');
    text.resize(leaks(text.data(), text.size()) == 0 ? 0 : text.find('\0'));
    return text;
  }
};

/// Returns nullptr if the process has no CUDA driver, or has another CUDA driver.
inline const fake_cuda_control* find_fake_cuda() {
  static fake_cuda_control one;
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  static const bool is_fake = [library] {
#define FAKE_CUDA_FIND(name, answer, takes) \
  one.name = reinterpret_cast<answer(*) takes>(dlsym(library, "fake_cuda_" #name));
    FAKE_CUDA_CONTROL(FAKE_CUDA_FIND)
#undef FAKE_CUDA_FIND
    return one.reset != nullptr;
  }();
  return is_fake ? &one : nullptr;
}

}  // namespace lsched::testing
