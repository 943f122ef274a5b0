// What has become of a device: the first call that failed says it, and it never gets well again.
#pragma once

#include <string>
#include <string_view>

#include "offload/cuda/driver/context.h"

namespace lsched {

/// One thread at a time.
class cuda_health {
 public:
  explicit cuda_health(const cuda_context& of) : of_(of) {}

  bool is_well() const { return why_.empty(); }
  status code() const { return is_well() ? status::ok : status::device; }
  const std::string& words() const { return why_; }

  void fail(std::string_view call, CUresult answer) {
    if (is_well()) why_ = failure_of(of_.driver(), call, answer).text + " on " + of_.name();
  }

  /// The same, if it is an answer after which no call succeeds. Answers whether the call has succeeded.
  bool note(std::string_view call, CUresult answer) {
    if (status_of(answer) == status::device) fail(call, answer);
    return answer == CUDA_SUCCESS;
  }

 private:
  const cuda_context& of_;
  std::string why_;
};

}  // namespace lsched
