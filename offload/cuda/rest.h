// Whether a device has done all that it was given. The driver has no question for that; but it gives memory back only
// then, and whoever asks it to waits as long. (docs/inside/cuda.md, 6)
#pragma once

#include <chrono>

#include "offload/cuda/driver/context.h"

namespace lsched {

/// What that takes: a little memory, which is there from the beginning, as there may be none when it is needed.
result<CUdeviceptr> reserve_for_rest(const cuda_context& in);

/// Waits until nothing is under way on the device, in no stream of this process, and gives `reserved` back. False: it
/// is not known after that time, or there is no thread to be had; then the context must live for ever, as a thread may
/// wait in it. True also of a device that has failed, whose driver lets nobody wait, and if nothing was reserved.
bool comes_to_rest(const cuda_context& in, CUdeviceptr reserved, std::chrono::milliseconds limit);

}  // namespace lsched
