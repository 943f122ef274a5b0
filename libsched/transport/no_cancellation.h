// no_cancellation prevents the cancellation of threads (pthread_cancel) inside the library.
//
// A thread that is cancelled while it owns the engine would never release the engine. So the library disables
// cancellation around all calls that may be cancellation points. These are the cold calls of the C interface, the
// search for dead ranks, and steps that call MPI, a GPU driver or user-defined arithmetic. All other steps contain no
// cancellation point, so a round over shared memory has no overhead.
#pragma once

#include <pthread.h>

namespace lsched {

/// While the object exists, requests to cancel this thread stay pending. While no such object exists, a thread inside
/// the library must not use asynchronous cancellation (PTHREAD_CANCEL_ASYNCHRONOUS).
class no_cancellation {
 public:
  explicit no_cancellation(bool applies = true) : applies_(applies) {
    if (applies_) pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_);
  }
  ~no_cancellation() {
    if (applies_) pthread_setcancelstate(before_, nullptr);
  }
  no_cancellation(const no_cancellation&) = delete;
  no_cancellation& operator=(const no_cancellation&) = delete;

 private:
  const bool applies_;
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace lsched
