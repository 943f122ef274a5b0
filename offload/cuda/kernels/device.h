// The words of kernels. nvcc compiles what is written in them for devices; with LSCHED_EMULATE the C++ compiler does so
// for the host, where tests run it (tests/offload/cuda/emulated.h).
//
// A kernel takes one device_arguments by value, and its symbol is in no namespace. No other feature of CUDA is used: no
// shuffles, no atomics but sums of integers, no memory that is allocated.
#pragma once

#include <cstdint>

#include "offload/cuda/kernels/arguments.h"

#ifdef LSCHED_EMULATE
#include "offload/cuda/kernels/emulation.h"
#else

/// Threads of a block, at most.
#define LSCHED_MOST_THREADS 256

#define LSCHED_DEVICE __device__ __forceinline__
#define LSCHED_SHARED __shared__

/// LSCHED_KERNEL(symbol) { … with.a … }. Where threads of a block wait for each other: LSCHED_BLOCK_KERNEL.
#define LSCHED_KERNEL(symbol)                                       \
  extern "C" __global__ void __launch_bounds__(LSCHED_MOST_THREADS) \
      symbol(const __grid_constant__ lsched::device_arguments with)
#define LSCHED_BLOCK_KERNEL(symbol) LSCHED_KERNEL(symbol)

/// Before a loop: how often its body is written down.
#define LSCHED_UNROLL(times) _Pragma(LSCHED_TEXT(unroll times))
#define LSCHED_TEXT(...) #__VA_ARGS__

namespace lsched {

LSCHED_DEVICE std::uint32_t thread_index() { return threadIdx.x; }
LSCHED_DEVICE std::uint32_t block_index() { return blockIdx.x; }
LSCHED_DEVICE std::uint32_t block_size() { return blockDim.x; }  ///< threads
LSCHED_DEVICE std::uint32_t grid_size() { return gridDim.x; }    ///< blocks

/// Returns when all threads of the block have called it, and sees what they had written.
LSCHED_DEVICE void sync_block() { __syncthreads(); }

/// Adds to a number that other threads of the grid add to.
LSCHED_DEVICE void add_atomically(std::uint32_t* to, std::uint32_t number) { atomicAdd(to, number); }
LSCHED_DEVICE void add_atomically(std::uint64_t* to, std::uint64_t number) {
  static_assert(sizeof(unsigned long long) == sizeof(std::uint64_t));
  atomicAdd(reinterpret_cast<unsigned long long*>(to), number);
}

/// sum + one * other where the product is exact, so that it does not matter whether it is rounded.
LSCHED_DEVICE double add_exact_product(double sum, double one, double other) { return __fma_rn(one, other, sum); }
LSCHED_DEVICE float add_exact_product(float sum, float one, float other) { return __fmaf_rn(one, other, sum); }

/// The number. Compilers that see where it comes from do its arithmetic in 16 bits, two numbers in a register: of bytes
/// that took more registers than there are, for sm_120.
LSCHED_DEVICE std::int32_t keep_wide(std::int32_t number) {
  asm("" : "+r"(number));
  return number;
}

/// IEEE binary16 by the hardware, which rounds to nearest even. Not of NaN, of which it makes another.
LSCHED_DEVICE float widen_half(std::uint16_t bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}
LSCHED_DEVICE std::uint16_t narrow_to_half(float value) {
  std::uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

}  // namespace lsched
#endif
