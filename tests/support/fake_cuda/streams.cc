// Implements streams, and all operations on streams except copies and kernels.
#include <algorithm>
#include <memory>

#include "tests/support/fake_cuda/capture.h"
#include "tests/support/fake_cuda/worker.h"

using namespace fake_cuda;

namespace {

/// Returns the address at which the driver accesses a word of a stream memory operation; nullptr if the memory is not
/// suitable.
std::uint64_t* word_at(process& p, CUdeviceptr at, CUstream stream) {
  const range* const of = p.memory.find(at);
  if (p.memory.was_freed(at)) misuse("a stream's word lies in freed device memory");
  if (of == nullptr || of->kind == space::managed || at % sizeof(std::uint64_t) != 0) return nullptr;
  return reinterpret_cast<std::uint64_t*>(
      p.memory.locate(at, sizeof(std::uint64_t), 1U << static_cast<unsigned>(stream->context->device)));
}

bool is_met(std::uint64_t word, std::uint64_t value, unsigned condition) {
  switch (condition) {
    case CU_STREAM_WAIT_VALUE_GEQ: return static_cast<std::int64_t>(word - value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ: return word == value;
    case CU_STREAM_WAIT_VALUE_AND: return (word & value) != 0;
    default: return ~(word | value) != 0;
  }
}

}  // namespace

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  return call("cuStreamCreateWithPriority", k_needs_context, [&](process& p, lock&) {
    if (stream == nullptr || (flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING)) != 0)
      return CUDA_ERROR_INVALID_VALUE;
    auto made = std::make_unique<CUstream_st>();
    made->context = current_context(p);
    made->flags = flags;
    made->priority = priority;
    *stream = p.streams.add(std::move(made));
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamDestroy(CUstream stream) {
  return call("cuStreamDestroy", k_needs_context, [&](process& p, lock&) {
    const CUstream gone = p.streams.find(stream, "a stream");
    if (gone == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (gone->capture) misuse("a stream is destroyed while it captures");
    p.streams.retire(gone);  // work that is already queued still runs
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
  return call("cuStreamGetCtx", k_anywhere, [&](process& p, lock&) {
    const CUstream of = stream_of(p, stream);
    if (of == nullptr) return stream == nullptr ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_HANDLE;
    *context = of->context;
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamSynchronize(CUstream stream) {
  return call("cuStreamSynchronize", k_needs_context | k_unsafe_in_capture, [&](process& p, lock& held) {
    const CUstream of = stream_of(p, stream);
    if (of == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (of->capture) return spoil(*of->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return wait_for_stream(p, held, of);
  });
}

CUresult cuStreamQuery(CUstream stream) {
  return call("cuStreamQuery", k_needs_context | k_unsafe_in_capture | k_queues, [&](process& p, lock&) {
    const CUstream of = stream_of(p, stream);
    if (of == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (of->capture) return spoil(*of->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    of->hangs = of->hangs || this_thread().call_hangs;
    return of->hangs || !of->queue.empty() ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
  });
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  return call("cuStreamWaitEvent", k_needs_context | k_queues, [&](process& p, lock& held) {
    const CUstream of = stream_of(p, stream);
    const CUevent awaited = p.events.find(event, "an event");
    if (of == nullptr || awaited == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (flags > CU_EVENT_WAIT_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
    if (awaited->capture) {
      if (of->capture && of->capture != awaited->capture) return spoil(*of->capture, CUDA_ERROR_STREAM_CAPTURE_MERGE);
      if (!of->capture) join(of, awaited->capture);
      return CUDA_SUCCESS;
    }
    if (of->capture) return spoil(*of->capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    if (!awaited->latest) return CUDA_SUCCESS;
    work waits;
    waits.is_ready = [moment = awaited->latest] { return moment->has_come; };
    return enqueue(p, held, of, std::move(waits));
  });
}

CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr at, cuuint64_t value, unsigned flags) {
  return call("cuStreamWaitValue64", k_needs_context | k_queues, [&](process& p, lock& held) {
    const CUstream of = stream_of(p, stream);
    if (of == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const unsigned condition = flags & ~static_cast<unsigned>(CU_STREAM_WAIT_VALUE_FLUSH);
    std::uint64_t* const word = word_at(p, at, of);
    if (word == nullptr || condition > CU_STREAM_WAIT_VALUE_NOR) return CUDA_ERROR_INVALID_VALUE;
    work waits;
    waits.is_ready = [=] { return is_met(__atomic_load_n(word, __ATOMIC_ACQUIRE), value, condition); };
    waits.polls = true;
    waits.uses = {{at, sizeof *word}};
    return enqueue(p, held, of, std::move(waits));
  });
}

CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr at, cuuint64_t value, unsigned flags) {
  return call("cuStreamWriteValue64", k_needs_context | k_queues, [&](process& p, lock& held) {
    const CUstream of = stream_of(p, stream);
    if (of == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    std::uint64_t* const word = word_at(p, at, of);
    if (word == nullptr || flags != CU_STREAM_WRITE_VALUE_DEFAULT) return CUDA_ERROR_INVALID_VALUE;
    work writes;
    writes.run = [=] {
      __atomic_store_n(word, value, __ATOMIC_RELEASE);
      return CUDA_SUCCESS;
    };
    writes.uses = {{at, sizeof *word}};
    return enqueue(p, held, of, std::move(writes));
  });
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  return call("cuLaunchHostFunc", k_needs_context | k_queues, [&](process& p, lock& held) {
    const CUstream of = stream_of(p, stream);
    if (of == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
    work calls;
    calls.run = [=] {
      this_thread().is_in_host_function = true;
      function(data);
      this_thread().is_in_host_function = false;
      return CUDA_SUCCESS;
    };
    return enqueue(p, held, of, std::move(calls));
  });
}
