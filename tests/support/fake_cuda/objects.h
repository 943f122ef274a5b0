// What CUDA's opaque handles stand for.
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

/// One record of an event.
struct moment {
  bool has_come = false;
};

/// Streams join one by waiting for an event that was recorded in it.
struct capture {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  std::thread::id thread;
  std::vector<CUstream> streams;
};

/// One entry of a stream.
struct work {
  std::function<CUresult()> run;   ///< by the worker, without the lock; null: nothing
  std::function<bool()> is_ready;  ///< with the lock; null: at once
  bool polls = false;              ///< it waits for something that nobody reports
  bool hangs = false;
  std::shared_ptr<moment> marks;                      ///< comes when this has completed
  std::vector<std::pair<address, std::size_t>> uses;  ///< memory; a kernel's, of which only the start is known, size 1
  std::uint64_t number = 0;                           ///< in the order in which all of them came
};

}  // namespace fake_cuda

struct CUstream_st {
  CUcontext context = nullptr;
  unsigned flags = CU_STREAM_DEFAULT;
  int priority = 0;
  bool is_alive = true;
  bool is_held = false;
  bool hangs = false;  ///< queries answer NOT_READY
  std::deque<fake_cuda::work> queue;
  std::shared_ptr<fake_cuda::capture> capture;  ///< null: it does not capture
};

struct CUctx_st {
  int device = 0;
  int retained = 0;
  CUstream_st legacy;  ///< the default stream: ordered with all streams that are not NON_BLOCKING
  std::map<std::thread::id, CUstream_st> of_threads;  ///< their default streams, as any other that is not NON_BLOCKING
};

struct CUevent_st {
  CUcontext context = nullptr;
  bool is_alive = true;
  bool hangs = false;
  std::shared_ptr<fake_cuda::moment> latest;    ///< null: it was never recorded
  std::shared_ptr<fake_cuda::capture> capture;  ///< the latest record is a part of this one
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
