// Says why a process died that touched what is not the host's.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fake_cuda {

/// From now on an access to these addresses writes "device memory is not for the host" to stderr before the process
/// dies of SIGSEGV. Other faults go where they went before. Once in a process.
void watch_for_crashes(std::uintptr_t start, std::size_t size);

}  // namespace fake_cuda
