// The arguments that every device kernel gets by value. The host fills in the arguments (offload/cuda/driver/launch.h).
// The kernel runs on a device, or is emulated on the host.
#pragma once

#include <cstdint>

namespace lsched {

struct device_arguments {
  const void* a;          ///< the operand of the lower rank
  const void* b;          ///< the operand of the higher rank; null if the kernel has only one operand
  void* c;                ///< the result; equal to a or b, or disjoint from both
  double* workspace;      ///< memory for data between passes
  std::uint64_t count;    ///< number of elements
  std::uint64_t divisor;  ///< for `divide`: the divisor
  double x, y;            ///< coefficients of scaled_add (c = x a + y b) and convert (c = x a)

  // For sparse.cu, c is the residual or the update, a is the gradient or the items, and x is the gradient's factor.
  void* items;           ///< output: the selected items
  void* found;           ///< output: the number of selected items, u64
  std::uint64_t wanted;  ///< number of items to select; for `drop`: smallest magnitude to drop
  std::uint64_t tiles;
  std::uint32_t shift, bits;  ///< position and number of the magnitude bits that a counting pass reads
  bool ignores_nan;
};

}  // namespace lsched
