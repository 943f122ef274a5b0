// What tests say to the fake driver beside CUDA: C functions of its library, `fake_cuda_` and the name, found there by
// dlsym. A program that runs with another driver has none of them. How to run under the fake: options.h.
#pragma once

#include <cuda.h>
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/offload/cuda/emulated.h"

namespace lsched::testing {

using kernel_finder = const emulated_kernel* (*)(std::string_view name);

// NAME(function, what it answers, what it takes). Any thread, except where a host function runs.
//   fail          more faults, written as in FAKE_CUDA_FAIL; calls are counted from now on
//   reset         waits for what runs, forgets everything else, reads the environment again; handles become destroyed
//                 ones, memory freed, and the calling thread has no context
//   calls         calls of that function since the start or the last reset
//   leaks         how many things were not given back; one line for each goes into `text`, cut at `size`. None after an
//                 error that sticks: nothing can be given back then
//   set_kernels   where kernels are found by name from now on; null: where they were at the start
//   hold          no stream goes on until go_on() (all) or step(); calls that wait for the device wait as long
//   go_on         the opposite
//   step          while held: runs one piece of work of that stream (`any`: of whichever); 0: none was ready
//   hold_stream   `is_held` 1: that stream does not go on; 0: it does
//   pending       pieces of work in that stream that have not completed
//   read, write   device memory from and to host memory. 0: no such memory
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

  /// One line for each thing that was not given back; empty: none.
  std::string leaked() const {
    std::string text(1U << 16U, '\0');
    text.resize(leaks(text.data(), text.size()) == 0 ? 0 : text.find('\0'));
    return text;
  }
};

/// nullptr: the process has no driver, or another one.
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
