// Runs device kernels on the host. For this purpose the sources of the kernels (offload/cuda/kernels/*.cu) are also
// compiled as C++. Blocks run one after the other. If a kernel has barriers, each thread of a block is a real thread,
// so that the thread sanitizer detects a missing barrier. Otherwise the threads of a block run one after the other,
// too.
#pragma once

#include <string_view>
#include <vector>

#include "offload/cuda/kernels/arguments.h"

namespace lsched {

struct emulated_kernel {
  std::string_view name;                           ///< name of the kernel in the device image
  void (*function)(const device_arguments& with);  ///< runs one thread of the grid
  bool waits;                                      ///< whether the kernel has barriers

  /// Runs the kernel, and returns when all blocks have ended. `threads` is at most 256. Any thread may call this
  /// function.
  void run(const device_arguments& with, unsigned blocks, unsigned threads) const;
};

/// Returns the kernel with this name, or nullptr if there is no such kernel. Thread-safe.
const emulated_kernel* find_emulated(std::string_view name);

/// Returns the names of all kernels.
std::vector<std::string_view> emulated_names();

/// Injects a fault: from now on, threads do not wait at the `number`-th barrier of a block, counted from 1. If `number`
/// is 0, threads wait at all barriers.
void leave_out_barrier(unsigned number);

}  // namespace lsched
