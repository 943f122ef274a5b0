#include "tests/support/fake_cuda/worker.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "tests/support/fake_cuda/capture.h"

namespace fake_cuda {
namespace {

constexpr std::chrono::microseconds k_nap{50};  // interval between two polls of a word in memory

bool is_blocking(const CUstream_st& stream) { return (stream.flags & CU_STREAM_NON_BLOCKING) == 0; }

/// Returns whether the head of stream `later` must wait until the head of stream `earlier` has completed.
bool comes_after(const process& p, const CUstream_st& later, const CUstream_st& earlier) {
  if (earlier.queue.front().number >= later.queue.front().number) return false;
  if (p.settings.has_one_queue) return true;
  if (earlier.context != later.context) return false;
  const CUstream_st* const legacy = &later.context->legacy;
  return &later == legacy ? is_blocking(earlier) : &earlier == legacy && is_blocking(later);
}

bool is_ready(const process& p, const CUstream_st& stream) {
  const work& head = stream.queue.front();
  if (head.hangs || stream.is_held) return false;
  for (const CUstream other : p.busy)
    if (comes_after(p, stream, *other)) return false;
  return !head.is_ready || head.is_ready();
}

/// Returns a random ready stream, or nullptr if no stream is ready.
CUstream choose(process& p) {
  if (p.dead) return nullptr;
  std::vector<CUstream> ready;
  for (const CUstream stream : p.busy)
    if ((p.step == nullptr || p.step->any || p.step->stream == stream) && is_ready(p, *stream)) ready.push_back(stream);
  return ready.empty() ? nullptr : ready[p.order() % ready.size()];
}

void run_head(process& p, lock& held, CUstream stream) {
  work& head = stream->queue.front();
  p.running = stream;
  if (head.run) {
    held.unlock();
    const CUresult answer = head.run();
    held.lock();
    if (answer != CUDA_SUCCESS) die(p, answer);
  }
  p.running = nullptr;
  if (!p.dead) {
    if (head.marks) head.marks->has_come = true;
    stream->queue.pop_front();
    if (stream->queue.empty()) p.busy.erase(std::find(p.busy.begin(), p.busy.end(), stream));
  }
  p.changed.notify_all();
}

void answer_step(process& p, bool answer) {
  if (p.step == nullptr) return;
  p.step->answer = answer;
  p.step = nullptr;
  p.changed.notify_all();
}

[[noreturn]] void serve(process& p) {
  lock held(p.guard);
  for (;;) {
    const bool goes_on = !p.is_held || p.step != nullptr;
    const CUstream next = goes_on ? choose(p) : nullptr;
    if (next != nullptr) {
      run_head(p, held, next);
      answer_step(p, true);
      continue;
    }
    answer_step(p, false);
    const bool polls = goes_on && !p.dead && std::any_of(p.busy.begin(), p.busy.end(), [](CUstream stream) {
                         return stream->queue.front().polls;
                       });
    if (polls)
      p.work_arrived.wait_for(held, k_nap);
    else
      p.work_arrived.wait(held);
  }
}

CUresult answer_of(const process& p) { return p.dead.value_or(CUDA_SUCCESS); }

}  // namespace

CUstream stream_of(process& p, CUstream handle) {
  const bool is_of_thread = handle == CU_STREAM_PER_THREAD;
  if (handle != nullptr && handle != CU_STREAM_LEGACY && !is_of_thread) return p.streams.find(handle, "a stream");
  const CUcontext current = current_context(p);
  if (current == nullptr || !is_of_thread) return current == nullptr ? nullptr : &current->legacy;
  CUstream_st& mine = current->of_threads[std::this_thread::get_id()];
  mine.context = current;
  return &mine;
}

CUresult enqueue(process& p, lock& held, CUstream stream, work what) {
  if (stream->capture)
    return stream->capture->status == CU_STREAM_CAPTURE_STATUS_ACTIVE ? CUDA_SUCCESS
                                                                      : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (stream == &stream->context->legacy && is_legacy_forbidden(p)) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  p.changed.wait(held, [&] { return p.dead || stream->queue.size() < k_queue_length; });
  if (p.dead) return *p.dead;
  if (!p.has_worker) std::thread([&p] { serve(p); }).detach();
  p.has_worker = true;
  what.number = ++p.last_work;
  what.hangs = what.hangs || this_thread().call_hangs;
  if (stream->queue.empty()) p.busy.push_back(stream);
  stream->queue.push_back(std::move(what));
  p.work_arrived.notify_all();
  return CUDA_SUCCESS;
}

CUresult wait_for_stream(process& p, lock& held, CUstream stream) {
  const std::uint64_t last = p.last_work;
  p.changed.wait(held, [&] { return p.dead || stream->queue.empty() || stream->queue.front().number > last; });
  return answer_of(p);
}

CUresult wait_for_device(process& p, lock& held, int device) {
  const std::uint64_t last = p.last_work;
  p.changed.wait(held, [&] {
    return p.dead || std::none_of(p.busy.begin(), p.busy.end(), [&](CUstream stream) {
             return stream->context->device == device && stream->queue.front().number <= last;
           });
  });
  return answer_of(p);
}

bool is_used(const process& p, address start, std::size_t size) {
  for (const CUstream stream : p.busy)
    for (const work& one : stream->queue)
      for (const auto& [at, bytes] : one.uses)
        if (at < start + size && start < at + bytes) return true;
  return false;
}

}  // namespace fake_cuda
