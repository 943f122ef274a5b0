// The primitives that kernels use. nvcc compiles the kernels for devices. With LSCHED_EMULATE, the C++ compiler
// compiles them for the host, for tests (tests/offload/cuda/emulated.h).
//
// A kernel takes one device_arguments by value, and its symbol is not in a namespace. Kernels use no CUDA features
// beyond these primitives: no shuffles, no atomics except integer sums, no allocation.
#pragma once

#include <cstdint>

#include "offload/cuda/kernels/arguments.h"

#ifdef LSCHED_EMULATE
#include "offload/cuda/kernels/emulation.h"
#else

#define LSCHED_MOST_THREADS 256

#define LSCHED_DEVICE __device__ __forceinline__
#define LSCHED_SHARED __shared__

/// LSCHED_KERNEL(symbol) { … with.a … } defines a kernel. LSCHED_BLOCK_KERNEL defines a kernel that calls sync_block().
#define LSCHED_KERNEL(symbol)                                       \
  extern "C" __global__ void __launch_bounds__(LSCHED_MOST_THREADS) \
      symbol(const __grid_constant__ lsched::device_arguments with)
#define LSCHED_BLOCK_KERNEL(symbol) LSCHED_KERNEL(symbol)

/// Unrolls the following loop `times` times.
#define LSCHED_UNROLL(times) _Pragma(LSCHED_TEXT(unroll times))
#define LSCHED_TEXT(...) #__VA_ARGS__

namespace lsched {

LSCHED_DEVICE std::uint32_t thread_index() { return threadIdx.x; }
LSCHED_DEVICE std::uint32_t block_index() { return blockIdx.x; }
LSCHED_DEVICE std::uint32_t block_size() { return blockDim.x; }  ///< number of threads in a block
LSCHED_DEVICE std::uint32_t grid_size() { return gridDim.x; }    ///< number of blocks in the grid

/// Waits until all threads of the block have called this function, and makes their earlier writes visible to all
/// threads of the block.
LSCHED_DEVICE void sync_block() { __syncthreads(); }

/// Adds `number` to *to. Other threads of the grid may add to *to at the same time.
LSCHED_DEVICE void add_atomically(std::uint32_t* to, std::uint32_t number) { atomicAdd(to, number); }
LSCHED_DEVICE void add_atomically(std::uint64_t* to, std::uint64_t number) {
  static_assert(sizeof(unsigned long long) == sizeof(std::uint64_t));
  atomicAdd(reinterpret_cast<unsigned long long*>(to), number);
}

/// Returns sum + one * other. The product must be exact, so that a fused multiply-add gives the same bits.
LSCHED_DEVICE double add_exact_product(double sum, double one, double other) { return __fma_rn(one, other, sum); }
LSCHED_DEVICE float add_exact_product(float sum, float one, float other) { return __fmaf_rn(one, other, sum); }

/// Returns `number`, but hides its value range from the compiler. If the compiler knew the range, it would pack two
/// 16-bit numbers into a register. On sm_120, such code for bytes needed more registers than a thread has.
LSCHED_DEVICE std::int32_t keep_wide(std::int32_t number) {
  asm("" : "+r"(number));
  return number;
}

/// These functions convert from and to IEEE binary16 in hardware, which rounds to nearest even. The argument must not
/// be a NaN, because the hardware changes the bits of NaNs.
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
