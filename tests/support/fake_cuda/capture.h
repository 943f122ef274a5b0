// The state of stream captures. What is captured is not kept: no graph can be launched. Callers hold the driver's lock.
#pragma once

#include "tests/support/fake_cuda/process.h"

namespace fake_cuda {

/// A call that is unsafe in captures would spoil one, when this thread makes it.
bool forbids_unsafe_calls(const process& p);

/// A call that its capture does not allow.
CUresult spoil(capture& of, CUresult answer);

/// The stream belongs to it from now on.
void join(CUstream stream, const std::shared_ptr<capture>& into);

/// Some stream that is ordered with the legacy default stream captures.
bool is_legacy_forbidden(const process& p);

}  // namespace fake_cuda
