#include "offload/cuda/streams/job_queue.h"

#include <algorithm>

namespace lsched {

result<std::unique_ptr<job_queue>> job_queue::open(const cuda_context& in) {
  std::unique_ptr<job_queue> made(new job_queue(in));
  int least = 0, greatest = 0;  // the greatest priority has the lowest number
  (void)in.driver().cuCtxGetStreamPriorityRange(&least, &greatest);
  CUresult answer = in.driver().cuStreamCreateWithPriority(&made->stream_, CU_STREAM_NON_BLOCKING, greatest);
  if (answer == CUDA_SUCCESS)
    answer = in.driver().cuStreamCreateWithPriority(&made->ringing_, CU_STREAM_NON_BLOCKING, greatest);
  if (answer != CUDA_SUCCESS) return failure_of(in.driver(), "cuStreamCreateWithPriority", answer);
  return made;
}

job_queue::~job_queue() {
  const cuda_scope here(in_);
  if (!here.is_entered()) return;
  for (const job& one : jobs_) (void)in_.driver().cuEventDestroy(one.end);
  for (const CUstream one : {stream_, ringing_})
    if (one != nullptr) (void)in_.driver().cuStreamDestroy(one);
}

// Before the ring buffer grows, the jobs in flight are rotated to its beginning.
CUresult job_queue::reserve(std::size_t jobs) {
  if (jobs <= jobs_.size()) return CUDA_SUCCESS;
  if (!jobs_.empty()) {
    std::rotate(jobs_.begin(), jobs_.begin() + static_cast<std::ptrdiff_t>(begin_ % jobs_.size()), jobs_.end());
    end_ = size();
    begin_ = 0;
  }
  const std::size_t before = jobs_.size();
  while (jobs_.size() < jobs) {
    CUevent made = nullptr;
    const CUresult answer = in_.driver().cuEventCreate(&made, CU_EVENT_DISABLE_TIMING);
    if (answer != CUDA_SUCCESS) {
      for (; jobs_.size() > before; jobs_.pop_back()) (void)in_.driver().cuEventDestroy(jobs_.back().end);
      return answer;
    }
    jobs_.push_back({made});
  }
  return CUDA_SUCCESS;
}

void job_queue::add_job(std::uint64_t cookie) {
  job& next = jobs_[end_++ % jobs_.size()];
  next = {next.end, cookie};
}

CUresult job_queue::mark(job& one) {
  const CUresult answer = in_.driver().cuEventRecord(one.end, stream_);
  one.is_marked = answer == CUDA_SUCCESS;
  return answer;
}

CUresult job_queue::mark_end() { return mark(jobs_[(end_ - 1) % jobs_.size()]); }

bool job_queue::arm(gpu_bell& bell) {
  job& oldest = jobs_[begin_ % jobs_.size()];
  if (!oldest.is_armed && oldest.is_marked)
    oldest.is_armed = in_.driver().cuStreamWaitEvent(ringing_, oldest.end, 0) == CUDA_SUCCESS &&
                      bell.ring_behind(in_.driver(), ringing_);
  return oldest.is_armed;
}

CUresult job_queue::take_ended(std::uint64_t* cookie) {
  job& oldest = jobs_[begin_ % jobs_.size()];
  if (!oldest.is_marked)
    if (const CUresult answer = mark(oldest); answer != CUDA_SUCCESS) return answer;
  const CUresult answer = in_.driver().cuEventQuery(oldest.end);
  if (answer != CUDA_SUCCESS) return answer;
  *cookie = oldest.cookie;
  ++begin_;
  return CUDA_SUCCESS;
}

}  // namespace lsched
