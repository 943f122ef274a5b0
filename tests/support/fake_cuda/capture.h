// The state of stream captures. Captured work is dropped, so no graph can be launched. Callers hold the driver's lock.
#pragma once

#include "tests/support/fake_cuda/process.h"

namespace fake_cuda {

/// Returns whether an unsafe call of this thread would invalidate a capture.
bool forbids_unsafe_calls(const process& p);

/// Invalidates a capture after a call that the capture does not allow. Returns `answer`.
CUresult spoil(capture& of, CUresult answer);

/// Adds the stream to a capture.
void join(CUstream stream, const std::shared_ptr<capture>& into);

/// Returns whether a stream that is ordered with the legacy default stream is in a capture.
bool is_legacy_forbidden(const process& p);

}  // namespace fake_cuda
