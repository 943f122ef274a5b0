// Streams are queues of work, which one worker thread serves. The seed determines which ready stream is served next.
// Callers hold the driver's lock.
#pragma once

#include "tests/support/fake_cuda/process.h"

namespace fake_cuda {

/// Capacity of a stream. As on hardware, a call that queues more work blocks.
inline constexpr std::size_t k_queue_length = 1020;

/// Returns the stream of a handle, or nullptr. Null, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD denote streams of the
/// current context. The handle of a destroyed stream is misuse.
CUstream stream_of(process& p, CUstream handle);

/// Adds work at the end of a stream. If the stream is in a capture, the work is dropped.
CUresult enqueue(process& p, lock& held, CUstream stream, work what);

/// Blocks until all work that is now in the stream, or on the device, has completed or the driver has died.
CUresult wait_for_stream(process& p, lock& held, CUstream stream);
CUresult wait_for_device(process& p, lock& held, int device);

/// Returns whether incomplete work uses any of these bytes.
bool is_used(const process& p, address start, std::size_t size);

}  // namespace fake_cuda
