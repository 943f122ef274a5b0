// What no program may do with a driver. A real one answers something, hangs or crashes later; this one ends the process
// at once, with a line that says why.
#pragma once

#include <string>

namespace fake_cuda {

/// Writes "fake CUDA: misuse: <what>" to stderr and aborts.
[[noreturn]] void misuse(const std::string& what);

}  // namespace fake_cuda
