// Misuse is a call that no program may make. After a misuse, a real driver returns some result, hangs, or crashes
// later. The fake driver aborts the process at once with a message.
#pragma once

#include <string>

namespace fake_cuda {

/// Writes "fake CUDA: misuse: <what>" to stderr and aborts.
[[noreturn]] void misuse(const std::string& what);

}  // namespace fake_cuda
