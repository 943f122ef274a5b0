// The objects behind CUDA's opaque handles.
#pragma once

#include <cuda.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/offload/cuda/emulated.h"
#include "tests/support/fake_cuda/memory.h"

namespace fake_cuda {

/// The point in a stream that one cuEventRecord has marked.
struct moment {
  bool has_come = false;
};

/// A stream capture. A stream joins a capture by waiting for an event that was recorded in the capture.
struct capture {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  std::thread::id thread;
  std::vector<CUstream> streams;
};

/// An entry of a stream.
struct work {
  std::function<CUresult()> run;   ///< operation of the entry, called by the worker without the lock; null if there is
                                   ///< no operation
  std::function<bool()> is_ready;  ///< returns whether the entry may run; called with the lock; null if the entry may
                                   ///< always run
  bool polls = false;              ///< `is_ready` must be polled, because no call of the driver changes its result
  bool hangs = false;
  std::shared_ptr<moment> marks;  ///< event record that is reached when this entry completes, or null
  std::vector<std::pair<address, std::size_t>> uses;  ///< start and size of the memory that the entry accesses; the
                                                      ///< size is one byte for kernels, because their sizes are unknown
  std::uint64_t number = 0;  ///< index of the entry in the order in which all entries were queued
};

}  // namespace fake_cuda

struct CUstream_st {
  CUcontext context = nullptr;
  unsigned flags = CU_STREAM_DEFAULT;
  int priority = 0;
  bool is_alive = true;
  bool is_held = false;
  bool hangs = false;  ///< whether queries of the stream return NOT_READY
  std::deque<fake_cuda::work> queue;
  std::shared_ptr<fake_cuda::capture> capture;  ///< capture that the stream is part of, or null
};

struct CUctx_st {
  int device = 0;
  int retained = 0;
  CUstream_st legacy;  ///< the legacy default stream, which is ordered with all streams that are not NON_BLOCKING
  std::map<std::thread::id, CUstream_st> of_threads;  ///< per-thread default streams, which are blocking streams
};

struct CUevent_st {
  CUcontext context = nullptr;
  bool is_alive = true;
  bool hangs = false;
  std::shared_ptr<fake_cuda::moment> latest;    ///< latest record; null if the event was never recorded
  std::shared_ptr<fake_cuda::capture> capture;  ///< capture that contains the latest record
};

struct CUfunc_st {
  CUmodule module = nullptr;
  const lsched::emulated_kernel* kernel = nullptr;
  bool is_alive = true;
};

struct CUmod_st {
  CUcontext context = nullptr;
  bool is_alive = true;
  std::vector<CUfunction> functions;
};

struct CUgraph_st {
  bool is_alive = true;
};
