// The state of stream captures. Captured work is dropped, so no graph can be launched. All functions require the
// driver's lock.
#pragma once

#include "tests/support/fake_cuda/process.h"

namespace fake_cuda {

/// Returns whether an unsafe call (k_unsafe_in_capture) from this thread would invalidate a capture.
bool forbids_unsafe_calls(const process& p);

/// Invalidates a capture after a call that is forbidden in captures. Returns `answer`.
CUresult spoil(capture& of, CUresult answer);

void join(CUstream stream, const std::shared_ptr<capture>& into);

/// Returns true if a blocking stream is being captured. No call may then use the legacy default stream.
bool is_legacy_forbidden(const process& p);

}  // namespace fake_cuda
