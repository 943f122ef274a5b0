// Device kernels on the host: the same sources (offload/cuda/kernels/*.cu), compiled as C++. A block's threads are real
// threads where they wait for each other, so that the thread sanitizer sees a barrier that is missing; otherwise they
// run one after the other. Blocks run in turn.
#pragma once

#include <string_view>
#include <vector>

#include "offload/cuda/kernels/arguments.h"

namespace lsched {

struct emulated_kernel {
  std::string_view name;                           ///< the symbol in the device image
  void (*function)(const device_arguments& with);  ///< of one thread
  bool waits;                                      ///< threads of a block wait for each other

  /// Returns when all is done. Any thread; `threads` is at most 256.
  void run(const device_arguments& with, unsigned blocks, unsigned threads) const;
};

/// nullptr: there is no such kernel. Thread-safe.
const emulated_kernel* find_emulated(std::string_view name);

/// Of all kernels.
std::vector<std::string_view> emulated_names();

/// A fault: from now on no thread waits at the `number`-th barrier that it comes to in a block, counted from 1. 0: they
/// wait at all.
void leave_out_barrier(unsigned number);

}  // namespace lsched
