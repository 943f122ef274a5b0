// Implements events. A record of an event marks a point in a stream. An event is complete when the stream has reached
// the latest record of the event.
#include <memory>

#include "tests/support/fake_cuda/capture.h"
#include "tests/support/fake_cuda/worker.h"

using namespace fake_cuda;

CUresult cuEventCreate(CUevent* event, unsigned /*flags*/) {
  return call("cuEventCreate", k_needs_context, [&](process& p, lock&) {
    if (event == nullptr) return CUDA_ERROR_INVALID_VALUE;
    auto made = std::make_unique<CUevent_st>();
    made->context = current_context(p);
    *event = p.events.add(std::move(made));
    return CUDA_SUCCESS;
  });
}

CUresult cuEventDestroy(CUevent event) {
  return call("cuEventDestroy", k_needs_context, [&](process& p, lock&) {
    const CUevent gone = p.events.find(event, "an event");
    if (gone == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    p.events.retire(gone);  // streams that wait for the event's latest record still wait for it
    return CUDA_SUCCESS;
  });
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  return call("cuEventRecord", k_needs_context | k_queues, [&](process& p, lock& held) {
    const CUstream in = stream_of(p, stream);
    const CUevent recorded = p.events.find(event, "an event");
    if (in == nullptr || recorded == nullptr || in->context != recorded->context) return CUDA_ERROR_INVALID_HANDLE;
    work marks;
    marks.marks = std::make_shared<moment>();
    const std::shared_ptr<moment> latest = marks.marks;
    const CUresult answer = enqueue(p, held, in, std::move(marks));
    if (answer != CUDA_SUCCESS) return answer;
    recorded->capture = in->capture;
    recorded->latest = in->capture ? nullptr : latest;
    return CUDA_SUCCESS;
  });
}

CUresult cuEventQuery(CUevent event) {
  return call("cuEventQuery", k_needs_context | k_unsafe_in_capture | k_queues, [&](process& p, lock&) {
    const CUevent asked = p.events.find(event, "an event");
    if (asked == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (asked->capture) return spoil(*asked->capture, CUDA_ERROR_CAPTURED_EVENT);
    asked->hangs = asked->hangs || this_thread().call_hangs;
    return asked->hangs || (asked->latest && !asked->latest->has_come) ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
  });
}

CUresult cuEventSynchronize(CUevent event) {
  return call("cuEventSynchronize", k_needs_context | k_unsafe_in_capture, [&](process& p, lock& held) {
    const CUevent asked = p.events.find(event, "an event");
    if (asked == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (asked->capture) return spoil(*asked->capture, CUDA_ERROR_CAPTURED_EVENT);
    const std::shared_ptr<moment> latest = asked->latest;
    p.changed.wait(held, [&] { return p.dead || (!asked->hangs && (!latest || latest->has_come)); });
    return p.dead.value_or(CUDA_SUCCESS);
  });
}
