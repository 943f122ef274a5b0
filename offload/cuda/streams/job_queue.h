// Jobs in a stream of this library. An event marks the end of each job.
#pragma once

#include <vector>

#include "offload/cuda/streams/gpu_bell.h"

namespace lsched {

/// The jobs of one stream. Only one thread at a time may use the queue, within a cuda_scope. Only the destructor waits.
class job_queue {
 public:
  /// Creates a non-blocking stream of the highest priority.
  static result<std::unique_ptr<job_queue>> open(const cuda_context& in);
  ~job_queue();
  job_queue(const job_queue&) = delete;
  job_queue& operator=(const job_queue&) = delete;

  CUstream stream() const { return stream_; }

  /// Reserves capacity for `jobs` jobs in flight. On failure, nothing has changed.
  CUresult reserve(std::size_t jobs);

  /// Adds a job. The job is the work that the caller puts into the stream between this call and mark_end().
  void add_job(std::uint64_t cookie);
  /// Records the event that marks the end of the last added job.
  CUresult mark_end();

  /// Makes `bell` ring when the oldest job ends, unless an earlier call has already done so. Returns false on failure.
  /// The queue must not be empty.
  bool arm(gpu_bell& bell);

  std::size_t size() const { return end_ - begin_; }

  /// Removes the oldest job if it has ended, else returns NOT_READY. The queue must not be empty. If mark_end() could
  /// not record the event of the job, this function records the event, behind all work that is now in the stream.
  CUresult take_ended(std::uint64_t* cookie);

  /// Removes the oldest job without a check. Call this function only if the context executes nothing any more. The
  /// queue must not be empty.
  std::uint64_t take_any() { return jobs_[begin_++ % jobs_.size()].cookie; }

 private:
  struct job {
    CUevent end;
    std::uint64_t cookie = 0;
    bool is_marked = false;
    bool is_armed = false;
  };
  CUresult mark(job& one);
  explicit job_queue(const cuda_context& in) : in_(in) {}

  const cuda_context& in_;
  CUstream stream_ = nullptr;
  CUstream ringing_ = nullptr;  ///< stream of the host functions that ring the bell
  std::vector<job> jobs_;       ///< ring buffer
  std::size_t begin_ = 0, end_ = 0;
};

}  // namespace lsched
