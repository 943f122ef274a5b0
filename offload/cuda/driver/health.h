// The health of a device. After some errors of the driver, no later call can succeed. The first such error is recorded,
// and the device then counts as failed.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "offload/cuda/driver/context.h"

namespace lsched {

/// Records the errors of one device. Only one thread at a time may use the object.
class cuda_health {
 public:
  explicit cuda_health(const cuda_context& of) : of_(of) {}

  bool is_well() const { return why_.empty(); }
  status code() const { return is_well() ? status::ok : status::device; }
  /// If the device has failed, returns the reason. Otherwise returns the text of the last error, if any.
  const std::string& words() const { return is_well() ? last_ : why_; }

  void fail(std::string_view call, CUresult answer) {
    if (is_well()) why_ = words_of(call, answer);
  }

  /// Records the result of a driver call. Marks the device as failed if the error means that no later call can succeed.
  /// Returns true if the call has succeeded.
  bool note(std::string_view call, CUresult answer) {
    if (answer == CUDA_SUCCESS) return true;
    last_ = words_of(call, answer);
    if (status_of(answer) == status::device) fail(call, answer);
    return false;
  }

  /// Records an error that is not the result of a driver call.
  void note(std::string what) { last_ = std::move(what); }

 private:
  std::string words_of(std::string_view call, CUresult answer) const {
    return failure_of(of_.driver(), call, answer).text + " on " + of_.name();
  }

  const cuda_context& of_;
  std::string why_, last_;
};

}  // namespace lsched
