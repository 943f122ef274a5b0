// Streams are queues of work that one thread serves: whichever is ready, drawn from the seed. Callers hold the driver's
// lock.
#pragma once

#include "tests/support/fake_cuda/process.h"

namespace fake_cuda {

/// As many as a stream takes before the call that queues one more blocks, as on hardware.
inline constexpr std::size_t k_queue_length = 1020;

/// The stream of a handle, of which null, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD are the current context's. nullptr:
/// there is none. One that was destroyed is misuse.
CUstream stream_of(process& p, CUstream handle);

/// Puts work at the end of a stream. Of one that captures nothing is kept.
CUresult enqueue(process& p, lock& held, CUstream stream, work what);

/// Blocks until all that is in the stream now, or on the device, has completed, or nothing will.
CUresult wait_for_stream(process& p, lock& held, CUstream stream);
CUresult wait_for_device(process& p, lock& held, int device);

/// Work that has not completed uses some of these bytes.
bool is_used(const process& p, address start, std::size_t size);

}  // namespace fake_cuda
