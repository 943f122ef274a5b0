// Finds how many streams may wait for a value in memory (cuStreamWaitValue64) at the same time. Streams may share a
// hardware queue of the device. Then a waiting stream blocks the other streams of the queue. The driver does not know
// which stream will end the wait, so that stream may be blocked, too. (docs/inside/cuda.md, 6)
#pragma once

#include "offload/cuda/streams/stream_words.h"

namespace lsched {

/// The result of the test.
struct canary_song {
  std::size_t most_waiting = 0;    ///< maximum number of waiting streams with which work proceeds
  CUresult answer = CUDA_SUCCESS;  ///< result of the first driver call that failed
  bool hangs = false;              ///< some work is still in flight although no stream waits any more
};

/// Lets 1, 2, 4, … stream_limit::k_most_tried streams of a user's priority wait. Tests for each number whether work in
/// the stream `ours` proceeds during the wait. Takes 100 ms if the work is blocked, and seconds if the device hangs.
canary_song most_waiting_streams(const cuda_context& in, stream_words& words, CUstream ours);

}  // namespace lsched
