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
};

}  // namespace lsched
