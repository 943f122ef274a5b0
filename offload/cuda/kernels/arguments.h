// The arguments of every device kernel, passed by value: one call of a kernel of the table (ops/kernel.h), by
// addresses. The host fills them in (offload/cuda/driver/launch.h). The kernel, compiled for a device or emulated on
// the host, reads them.
#pragma once

#include <cstdint>

namespace lsched {

struct device_arguments {
  const void* a;          ///< the operand of the lower rank
  const void* b;          ///< the other operand; null if the kernel takes only one
  void* c;                ///< the result; equal to a or b, or disjoint from both
  double* workspace;      ///< data between the passes of kernels with several passes
  std::uint64_t count;    ///< elements
  std::uint64_t divisor;  ///< for divide
  double x, y;            ///< for scaled_add: c = x a + y b; for convert: c = x a

  // For sparse.cu: c is the residual or the update, a is the gradient or the items, x is the gradient's factor.
  void* items;           ///< output: the selected items
  void* found;           ///< output: the number of selected items, u64
  std::uint64_t wanted;  ///< number of items; for drop: the least magnitude
  std::uint64_t tiles;
  std::uint32_t shift, bits;  ///< the bits of magnitudes that a counting pass reads
  bool ignores_nan;
};

}  // namespace lsched
