// Jobs in a stream of our own: in their order, each with an event that says when it has ended.
#pragma once

#include <vector>

#include "offload/cuda/streams/gpu_bell.h"

namespace lsched {

/// One thread at a time, in a cuda_scope. Nothing here waits but drain() and the destructor.
class job_queue {
 public:
  /// A stream of the highest priority, which waits for no other.
  static result<std::unique_ptr<job_queue>> open(const cuda_context& in);
  ~job_queue();
  job_queue(const job_queue&) = delete;
  job_queue& operator=(const job_queue&) = delete;

  CUstream stream() const { return stream_; }

  /// Room for so many jobs at a time. On failure there is what there was.
  CUresult reserve(std::size_t jobs);

  /// What was put into the stream since the last job is one, under this cookie.
  void add_job(std::uint64_t cookie);
  /// Marks the end of the newest one in the stream.
  CUresult mark_end();

  /// Rings once the oldest job has ended, if it is the first time. There is one.
  bool arm(gpu_bell& bell);

  std::size_t size() const { return end_ - begin_; }

  /// The oldest job, if it has ended: its cookie, and it is no longer here. NOT_READY: it has not. There is one. If its
  /// end could not be marked, tries that again, behind all that is in the stream by now.
  CUresult take_ended(std::uint64_t* cookie);

  /// The oldest job, whatever has become of it: of a context that runs nothing any more. There is one.
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
  CUstream ringing_ = nullptr;  ///< of host functions that ring
  std::vector<job> jobs_;       ///< a ring
  std::size_t begin_ = 0, end_ = 0;
};

}  // namespace lsched
