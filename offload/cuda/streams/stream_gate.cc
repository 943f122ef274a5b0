#include "offload/cuda/streams/stream_gate.h"

namespace lsched {
namespace {

/// Returns true for a handle of a default stream. Such a handle refers to a stream of the current context.
bool is_of_every_context(void* stream) {
  return stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

}  // namespace

std::unique_ptr<stream_gate> stream_gate::open(const cuda_context& in, cuda_health& health, stream_words& words,
                                               gpu_bell& bell) {
  std::unique_ptr<stream_gate> made(new stream_gate(in, health, words, bell));
  return made->reserve() ? std::move(made) : nullptr;
}

bool stream_gate::reserve() {
  const cuda_scope here(in_);
  end_ = words_.take();
  if (!health_.note("cuCtxPushCurrent", here.answer()) || end_.word == nullptr) return false;
  if (!health_.note("cuStreamCreate", in_.driver().cuStreamCreateWithPriority(&ringing_, CU_STREAM_NON_BLOCKING, 0)))
    return false;
  for (entry& one : entries_)
    if (!health_.note("cuEventCreate", in_.driver().cuEventCreate(&one.passed, CU_EVENT_DISABLE_TIMING))) return false;
  return true;
}

// All rounds for which a stream may wait must have been released. Host functions that are still in flight ring without
// effect.
stream_gate::~stream_gate() {
  if (end_.word != nullptr) words_.give_back(end_.word);
  const cuda_scope here(in_);
  if (!here.is_entered()) return;
  for (const entry& one : entries_)
    if (one.passed != nullptr) (void)in_.driver().cuEventDestroy(one.passed);
  if (ringing_ != nullptr) (void)in_.driver().cuStreamDestroy(ringing_);
}

// --- the application's side ----------------------------------------------------------------------------------------

// Checks that a stream belongs to this device. Must be called before the device's context is entered, because a default
// stream belongs to the current context.
status stream_gate::find_owner(void* stream) const {
  CUcontext current = nullptr, owner = nullptr;
  const CUresult answer = in_.driver().cuCtxGetCurrent(&current);
  if (is_of_every_context(stream)) {
    const bool is_elsewhere = answer == CUDA_SUCCESS && current != nullptr && current != in_.handle();
    return is_elsewhere ? status::constraint : status::ok;
  }
  const cuda_scope here(in_);
  if (!here.is_entered()) return status::device;
  if (const CUresult told = in_.driver().cuStreamGetCtx(static_cast<CUstream>(stream), &owner); told != CUDA_SUCCESS)
    return status_of(told);
  return owner == in_.handle() ? status::ok : status::constraint;
}

status stream_gate::validate(const cuda_scope& here, CUstream stream) const {
  if (!here.is_entered()) return status::device;
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult answer = in_.driver().cuStreamIsCapturing(stream, &capture);
  const bool is_captured = answer == CUDA_SUCCESS && capture != CU_STREAM_CAPTURE_STATUS_NONE;
  return is_captured ? status::unsupported : status_of(answer);
}

status stream_gate::ask(void* stream, round_no round) {
  if (const status why = find_owner(stream); why != status::ok) return why;
  const cuda_scope here(in_);
  const auto of = static_cast<CUstream>(stream);
  if (const status why = validate(here, of); why != status::ok) return why;
  entry& mine = entry_of(round);
  if (const CUresult answer = in_.driver().cuEventRecord(mine.passed, of); answer != CUDA_SUCCESS)
    return status_of(answer);
  mine.round = round;
  mine.is_armed = false;
  return status::ok;
}

status stream_gate::wait(void* stream, round_no round) {
  if (const status why = find_owner(stream); why != status::ok) return why;
  const cuda_scope here(in_);
  const auto of = static_cast<CUstream>(stream);
  if (const status why = validate(here, of); why != status::ok) return why;
  const std::uint64_t value = end_.base + round;
  if (end_.word->load() >= value) return status::ok;
  if (!words_.may_wait(of, *end_.word, value)) return status::pending;
  const CUresult answer =
      in_.driver().cuStreamWaitValue64(of, reinterpret_cast<CUdeviceptr>(end_.word), value, CU_STREAM_WAIT_VALUE_GEQ);
  return answer == CUDA_ERROR_NOT_SUPPORTED ? status::pending : status_of(answer);
}

// --- the engine's owner ----------------------------------------------------------------------------------------------

status stream_gate::is_open(round_no round) {
  const entry& mine = entry_of(round);
  if (mine.round != round) return status::ok;
  const cuda_scope here(in_);
  const CUresult answer = here.is_entered() ? in_.driver().cuEventQuery(mine.passed) : here.answer();
  if (answer == CUDA_SUCCESS) return status::ok;
  if (answer == CUDA_ERROR_NOT_READY) return status::pending;
  health_.fail("the GPU failed while this rank waited for the caller's stream", answer);
  return status::device;
}

bool stream_gate::arm(round_no round) {
  entry& mine = entry_of(round);
  if (mine.round != round || mine.is_armed) return true;
  const cuda_scope here(in_);
  mine.is_armed = here.is_entered() && in_.driver().cuStreamWaitEvent(ringing_, mine.passed, 0) == CUDA_SUCCESS &&
                  bell_.ring_behind(in_.driver(), ringing_);
  return mine.is_armed;
}

void stream_gate::release(round_no round) { stream_words::raise(*end_.word, end_.base + round); }

}  // namespace lsched
