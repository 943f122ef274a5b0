// What has become of a device: the first call after which none succeeds says it, and it never gets well again.
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
  /// Why it has failed, or of one that is well what could not be done last.
  const std::string& words() const { return is_well() ? last_ : why_; }

  void fail(std::string_view call, CUresult answer) {
    if (is_well()) why_ = words_of(call, answer);
  }

  /// The same, if it is an answer after which no call succeeds. Answers whether the call has succeeded.
  bool note(std::string_view call, CUresult answer) {
    if (answer == CUDA_SUCCESS) return true;
    last_ = words_of(call, answer);
    if (status_of(answer) == status::device) fail(call, answer);
    return false;
  }

  /// Something else than a call could not be done.
  void note(std::string what) { last_ = std::move(what); }

 private:
  std::string words_of(std::string_view call, CUresult answer) const {
    return failure_of(of_.driver(), call, answer).text + " on " + of_.name();
  }

  const cuda_context& of_;
  std::string why_, last_;
};

}  // namespace lsched
