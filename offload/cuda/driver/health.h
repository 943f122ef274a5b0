// The health of a device. The first error after which no call succeeds is recorded, and the device never recovers.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "offload/cuda/driver/context.h"

namespace lsched {

/// One thread at a time.
class cuda_health {
 public:
  explicit cuda_health(const cuda_context& of) : of_(of) {}

  bool is_well() const { return why_.empty(); }
  status code() const { return is_well() ? status::ok : status::device; }
  /// Returns the reason of the failure, or the last error if the device still works.
  const std::string& words() const { return is_well() ? last_ : why_; }

  void fail(std::string_view call, CUresult answer) {
    if (is_well()) why_ = words_of(call, answer);
  }

  /// Records the error of a call; the device fails if no later call succeeds. Returns whether the call has succeeded.
  bool note(std::string_view call, CUresult answer) {
    if (answer == CUDA_SUCCESS) return true;
    last_ = words_of(call, answer);
    if (status_of(answer) == status::device) fail(call, answer);
    return false;
  }

  /// Records an error that does not come from a driver call.
  void note(std::string what) { last_ = std::move(what); }

 private:
  std::string words_of(std::string_view call, CUresult answer) const {
    return failure_of(of_.driver(), call, answer).text + " on " + of_.name();
  }

  const cuda_context& of_;
  std::string why_, last_;
};

}  // namespace lsched
