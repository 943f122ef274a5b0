// Device kernels on the host: the same sources (offload/cuda/kernels/*.cu), compiled as C++. If the threads of a block
// wait for each other, they are real threads, so that the thread sanitizer detects a missing barrier. Otherwise they
// run one after the other. Blocks run in turn.
#pragma once

#include <string_view>
#include <vector>

#include "offload/cuda/kernels/arguments.h"

namespace lsched {

struct emulated_kernel {
  std::string_view name;                           ///< the symbol in the device image
  void (*function)(const device_arguments& with);  ///< runs one thread of the grid
  bool waits;                                      ///< threads of a block wait for each other

  /// Runs the kernel, and returns when all blocks have ended. `threads` is at most 256. Any thread.
  void run(const device_arguments& with, unsigned blocks, unsigned threads) const;
};

/// Returns nullptr if there is no such kernel. Thread-safe.
const emulated_kernel* find_emulated(std::string_view name);

/// Returns the names of all kernels.
std::vector<std::string_view> emulated_names();

/// Injects a fault: from now on no thread waits at its `number`-th barrier in a block, counted from 1. With 0, threads
/// wait at all barriers.
void leave_out_barrier(unsigned number);

}  // namespace lsched
