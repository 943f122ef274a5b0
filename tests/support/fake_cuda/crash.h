// Reports that a process died because the host accessed device memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fake_cuda {

/// Installs a handler of SIGSEGV. If an access to the `size` bytes at `start` faults, the handler writes "device memory
/// is not for the host" to stderr. Then the process dies. Other faults reach the previous handler. Call this function
/// at most once per process.
void watch_for_crashes(std::uintptr_t start, std::size_t size);

}  // namespace fake_cuda
