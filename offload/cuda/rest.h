// A wait, with a timeout, until a device is idle. The driver has no such function, but a call that frees memory returns
// only when the device is idle (docs/inside/cuda.md, 6).
#pragma once

#include <chrono>

#include "offload/cuda/driver/context.h"

namespace lsched {

/// Allocates a little memory for comes_to_rest(). Must be called when the device is attached, because the device may
/// run out of memory later.
result<CUdeviceptr> reserve_for_rest(const cuda_context& in);

/// Waits until no stream of this process has work in flight on the device. For this purpose, a new thread frees
/// `reserved`. Returns true after the wait, and also if the device has failed (driver calls then do not block) or
/// `reserved` is 0. Returns false if the wait takes longer than `limit`, or if no thread can be started. After false,
/// the context must never be destroyed, because the new thread may still use it.
bool comes_to_rest(const cuda_context& in, CUdeviceptr reserved, std::chrono::milliseconds limit);

}  // namespace lsched
