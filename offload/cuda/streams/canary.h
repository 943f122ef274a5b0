// The number of streams that may wait for memory at the same time. The driver does not know what such a stream waits
// for. If streams share a queue of the device, a waiting stream blocks the others. The stream that is to end the wait
// may be among them. (docs/inside/cuda.md, 6)
#pragma once

#include "offload/cuda/streams/stream_words.h"

namespace lsched {

struct canary_song {
  std::size_t most_waiting = 0;    ///< largest number with which work proceeds; 0: one waiting stream blocks it
  CUresult answer = CUDA_SUCCESS;  ///< of the first call that failed
  bool hangs = false;              ///< some work is still in flight although no stream waits any more
};

/// Makes 1, 2, 4 … stream_limit::k_most_tried streams of a user's priority wait, and tests whether work in `ours`
/// proceeds meanwhile. Takes 100 ms if it does not, and seconds if the device hangs.
canary_song most_waiting_streams(const cuda_context& in, stream_words& words, CUstream ours);

}  // namespace lsched
