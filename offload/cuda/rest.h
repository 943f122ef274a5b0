// Waits until a device is idle. The driver has no query for that. But a call that frees memory returns only when the
// device is idle. (docs/inside/cuda.md, 6)
#pragma once

#include <chrono>

#include "offload/cuda/driver/context.h"

namespace lsched {

/// Allocates a little memory for comes_to_rest(). Done at attach, because later no memory may be left.
result<CUdeviceptr> reserve_for_rest(const cuda_context& in);

/// Frees `reserved`, which takes until no stream of this process has work in flight on the device. Returns false if
/// that takes longer than `limit`, or if no thread can be started. Then the context must never be destroyed, because a
/// thread may wait in it. Also returns true for a failed device, whose driver blocks no call, and if nothing was
/// reserved.
bool comes_to_rest(const cuda_context& in, CUdeviceptr reserved, std::chrono::milliseconds limit);

}  // namespace lsched
