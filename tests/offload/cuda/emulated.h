// Device kernels on the host: the same sources (offload/cuda/kernels/*.cu), compiled as C++. A block's threads are real
// threads where they wait for each other, so that the thread sanitizer sees a barrier that is missing; otherwise they
// run one after the other. Blocks run in turn.
#pragma once

#include <string_view>

#include "offload/cuda/kernels/arguments.h"

namespace lsched {

struct emulated_kernel {
  std::string_view name;  ///< the symbol in the device image
  void (*run)(const device_arguments& with, unsigned blocks, unsigned threads);
};

/// nullptr: there is no such kernel. Thread-safe.
const emulated_kernel* find_emulated(std::string_view name);

}  // namespace lsched
