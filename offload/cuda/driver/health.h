// The health of a device. After some errors of the driver, no later call can succeed. The first such error is recorded,
// and from then on the device counts as failed.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "offload/cuda/driver/context.h"

namespace lsched {

/// Records the errors of one device. Used by one thread at a time.
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

  /// Records the error of a call, if any. Marks the device as failed if the error means that no later call can succeed.
  /// Returns whether the call has succeeded.
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
