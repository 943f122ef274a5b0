#include "tests/support/fake_cuda/capture.h"

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>

#include "tests/support/fake_cuda/worker.h"

namespace fake_cuda {

bool forbids_unsafe_calls(const process& p) {
  const CUstreamCaptureMode mode = this_thread().mode;
  if (mode == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
  return std::any_of(p.captures.begin(), p.captures.end(), [&](const std::shared_ptr<capture>& one) {
    if (one->thread == std::this_thread::get_id()) return one->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    return mode == CU_STREAM_CAPTURE_MODE_GLOBAL && one->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
  });
}

CUresult spoil(capture& of, CUresult answer) {
  of.status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  return answer;
}

void join(CUstream stream, const std::shared_ptr<capture>& into) {
  stream->capture = into;
  into->streams.push_back(stream);
}

bool is_legacy_forbidden(const process& p) {
  for (const std::shared_ptr<capture>& one : p.captures)
    for (CUstream stream : one->streams)
      if ((stream->flags & CU_STREAM_NON_BLOCKING) == 0) return true;
  return false;
}

}  // namespace fake_cuda

using namespace fake_cuda;

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  return call("cuThreadExchangeStreamCaptureMode", k_anywhere, [&](process&, lock&) {
    if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::swap(*mode, this_thread().mode);
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  return call("cuStreamBeginCapture", k_needs_context, [&](process& p, lock&) {
    const CUstream in = stream_of(p, stream);
    if (in == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (in == &in->context->legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (in->capture) return CUDA_ERROR_ILLEGAL_STATE;
    const auto begun = std::make_shared<capture>();
    begun->mode = mode;
    begun->thread = std::this_thread::get_id();
    p.captures.push_back(begun);
    join(in, begun);
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  return call("cuStreamEndCapture", k_needs_context, [&](process& p, lock&) {
    const CUstream in = stream_of(p, stream);
    if (in == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const std::shared_ptr<capture> ended = in->capture;
    if (!ended) return CUDA_ERROR_ILLEGAL_STATE;
    if (ended->streams.front() != in) return spoil(*ended, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    if (ended->mode != CU_STREAM_CAPTURE_MODE_RELAXED && ended->thread != std::this_thread::get_id())
      return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    for (CUstream one : ended->streams) one->capture = nullptr;
    p.captures.erase(std::find(p.captures.begin(), p.captures.end(), ended));
    *graph = nullptr;
    if (ended->status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    *graph = p.graphs.add(std::make_unique<CUgraph_st>());
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  return call("cuStreamIsCapturing", k_anywhere, [&](process& p, lock&) {
    const CUstream in = stream_of(p, stream);
    if (in == nullptr) return stream == nullptr ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_HANDLE;
    if (in == &in->context->legacy && is_legacy_forbidden(p)) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    *status = in->capture ? in->capture->status : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphDestroy(CUgraph graph) {
  return call("cuGraphDestroy", k_anywhere, [&](process& p, lock&) {
    const CUgraph gone = p.graphs.find(graph, "a graph");
    if (gone == nullptr) return CUDA_ERROR_INVALID_VALUE;
    p.graphs.retire(gone);
    return CUDA_SUCCESS;
  });
}
