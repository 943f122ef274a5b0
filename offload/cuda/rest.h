// Waits until a device is idle. The driver has no query for this state. But a call that frees memory returns only when
// the device is idle. (docs/inside/cuda.md, 6)
#pragma once

#include <chrono>

#include "offload/cuda/driver/context.h"

namespace lsched {

/// Allocates a little memory for comes_to_rest(). Call this at attach, because no memory may be left later.
result<CUdeviceptr> reserve_for_rest(const cuda_context& in);

/// Waits until no stream of this process has work in flight on the device. For this purpose a new thread frees
/// `reserved`. Returns false if the wait takes longer than `limit`, or if no thread can be started. After false, the
/// context must never be destroyed, because the new thread may still use the context. Also returns true if the device
/// has failed, because then the driver blocks no call, and if `reserved` is 0.
bool comes_to_rest(const cuda_context& in, CUdeviceptr reserved, std::chrono::milliseconds limit);

}  // namespace lsched
