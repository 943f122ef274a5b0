// Executes streams. A stream is a queue of work, and one worker thread runs the work of all streams. The seed
// determines which ready stream runs next. All functions require the driver's lock.
#pragma once

#include "tests/support/fake_cuda/process.h"

namespace fake_cuda {

/// Maximum number of entries in a stream. As on hardware, a call that would exceed the limit blocks.
inline constexpr std::size_t k_queue_length = 1020;

/// Returns the stream of a handle, or nullptr. Null, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD denote streams of the
/// current context. The handle of a destroyed stream aborts the process (misuse.h).
CUstream stream_of(process& p, CUstream handle);

/// Adds work at the end of a stream. If the stream is in a capture, the work is dropped.
CUresult enqueue(process& p, lock& held, CUstream stream, work what);

/// Blocks until the stream (or every stream of the device) has completed all work that it contained at the call. Also
/// returns if the driver has failed for good.
CUresult wait_for_stream(process& p, lock& held, CUstream stream);
CUresult wait_for_device(process& p, lock& held, int device);

/// Returns whether incomplete work accesses a byte of the range.
bool is_used(const process& p, address start, std::size_t size);

}  // namespace fake_cuda
