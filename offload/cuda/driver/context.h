// A device's context, with the library's kernels loaded.
//
// It is the device's primary context, which a program's other CUDA code uses, too. Whatever context a thread has stays
// current: who calls the driver makes a cuda_scope first.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "offload/cuda/driver/driver.h"
#include "offload/cuda/driver/launch.h"

namespace lsched {

class cuda_context {
 public:
  /// Loads all kernels, so that no launch loads anything later: that would wait for streams that wait.
  static result<std::unique_ptr<cuda_context>> open(const cuda_driver& driver, std::int32_t number);

  ~cuda_context();
  cuda_context(const cuda_context&) = delete;
  cuda_context& operator=(const cuda_context&) = delete;

  const cuda_driver& driver() const { return driver_; }
  CUcontext handle() const { return handle_; }
  std::int32_t number() const { return number_; }
  const std::string& name() const { return name_; }
  const std::array<std::byte, 16>& uuid() const { return uuid_; }

  /// By the place in device_symbols().
  CUfunction function(std::uint32_t place) const { return functions_[place]; }

 private:
  cuda_context(const cuda_driver& driver, CUdevice of, std::int32_t number)
      : driver_(driver), device_(of), number_(number) {}
  std::optional<failure> load();

  const cuda_driver& driver_;
  const CUdevice device_;
  const std::int32_t number_;
  std::string name_;
  std::array<std::byte, 16> uuid_{};
  CUcontext handle_ = nullptr;
  CUmodule image_ = nullptr;
  std::vector<CUfunction> functions_;
};

/// While it lives, this thread uses a context, and its calls do not end anybody's stream capture.
class cuda_scope {
 public:
  explicit cuda_scope(const cuda_context& in) : driver_(in.driver()) {
    is_current_ = driver_.cuCtxPushCurrent(in.handle()) == CUDA_SUCCESS;
    driver_.cuThreadExchangeStreamCaptureMode(&mode_);
  }
  ~cuda_scope() {
    driver_.cuThreadExchangeStreamCaptureMode(&mode_);
    CUcontext ours = nullptr;
    if (is_current_) driver_.cuCtxPopCurrent(&ours);
  }
  cuda_scope(const cuda_scope&) = delete;
  cuda_scope& operator=(const cuda_scope&) = delete;

 private:
  const cuda_driver& driver_;
  bool is_current_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace lsched
