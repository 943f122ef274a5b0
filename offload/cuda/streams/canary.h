// How many streams may wait for memory at a time. The driver does not know what such a stream waits for: where streams
// share a queue of the device, others do not get on behind it, and a stream that is to end the wait may be among them.
// (docs/inside/cuda.md, 6)
#pragma once

#include "offload/cuda/streams/stream_words.h"

namespace lsched {

struct canary_song {
  std::size_t most_waiting = 0;    ///< the largest number with which work gets on; 0: it does not with one
  CUresult answer = CUDA_SUCCESS;  ///< of the first call that failed
  bool hangs = false;              ///< some work has not ended although nothing waits any more
};

/// Lets 1, 2, 4 … stream_limit::k_most_tried streams of a user's priority wait, and tries whether work in `ours` gets
/// on meanwhile. Takes 100 ms where it does not, and seconds where it hangs.
canary_song most_waiting_streams(const cuda_context& in, stream_words& words, CUstream ours);

}  // namespace lsched
