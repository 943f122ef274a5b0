// Finds how many streams can wait for a value in memory (cuStreamWaitValue64) at the same time. If streams share a
// hardware queue of the device, a waiting stream blocks the other streams. It may block even the stream whose work
// would end the wait (docs/inside/cuda.md, 6). The name comes from canaries in mines: a test stream shows the problem
// before a round is blocked.
#pragma once

#include "offload/cuda/streams/stream_words.h"

namespace lsched {

/// The result of the test.
struct canary_song {
  std::size_t most_waiting = 0;    ///< highest tested number of waiting streams with which work proceeded; 0: none
  CUresult answer = CUDA_SUCCESS;  ///< result of the first driver call that failed
  bool hangs = false;              ///< work is still in flight although no stream waits any more
};

/// Tests whether work in stream `ours` proceeds while 1, 2, 4, … stream_limit::k_most_tried streams wait. Takes 100 ms
/// if the work is blocked, and seconds if the device hangs.
canary_song most_waiting_streams(const cuda_context& in, stream_words& words, CUstream ours);

}  // namespace lsched
