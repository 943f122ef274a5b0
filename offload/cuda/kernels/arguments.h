// What every device kernel takes, by value: the call of one kernel of the table (ops/kernel.h), as addresses. The host
// fills it in (offload/cuda/driver/launch.h), and the kernel, compiled for a device or emulated on the host, reads it.
#pragma once

#include <cstdint>

namespace lsched {

struct device_arguments {
  const void* a;          ///< the operand of the lower rank
  const void* b;          ///< the other one; null where the kernel has none
  void* c;                ///< the result; a or b, or disjoint from both
  double* workspace;      ///< of kernels in two passes: what the first leaves to the second
  std::uint64_t count;    ///< elements
  std::uint64_t divisor;  ///< of divide
  double x, y;            ///< of scaled_add: c = x a + y b; of convert: c = x a

  // Of sparse.cu: c is the residual, or the update; a the gradient, or items; x its factor, the rest:
  void* items;           ///< what is taken
  void* found;           ///< how many these are, u64
  std::uint64_t wanted;  ///< items; of drop: the least magnitude
  std::uint64_t tiles;
  std::uint32_t shift, bits;  ///< of a pass over magnitudes: which bits of them
  bool ignores_nan;
};

}  // namespace lsched
