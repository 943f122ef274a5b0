// Whether a device has done all that it was given. The driver has no question for that; but it gives memory back only
// then, and whoever asks it to waits as long. (docs/cuda.md, 6)
#pragma once

#include <chrono>

#include "offload/cuda/driver/context.h"

namespace lsched {

/// Waits until nothing is under way on the device, in no stream of this process. False: something still is after that
/// time; then the context must live for ever, as a thread waits in it. True also of a device that has failed, whose
/// driver lets nobody wait.
bool comes_to_rest(const cuda_context& in, std::chrono::milliseconds limit);

}  // namespace lsched
