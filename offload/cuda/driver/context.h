// A device's CUDA context, into which the kernels of this library are loaded.
//
// The context is the device's primary context, which the program's other CUDA code also uses. Calls of the driver must
// be made within a cuda_scope.
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
  /// Opens the context and loads all kernels. (If a kernel were loaded at its first launch, the driver would wait for
  /// all streams. A stream that waits for a round could then cause a deadlock.)
  static result<std::unique_ptr<cuda_context>> open(const cuda_driver& driver, std::int32_t number);

  ~cuda_context();
  cuda_context(const cuda_context&) = delete;
  cuda_context& operator=(const cuda_context&) = delete;

  const cuda_driver& driver() const { return driver_; }
  CUcontext handle() const { return handle_; }
  std::int32_t number() const { return number_; }
  const std::string& name() const { return name_; }
  const std::array<std::byte, 16>& uuid() const { return uuid_; }

  /// Returns the function whose name is device_symbols()[place].
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

/// As long as this object exists, a context is current for the calling thread. Driver calls in this scope do not
/// invalidate stream captures of other code. If is_entered() is false, the context no longer exists. Then no driver
/// call may be made, because the call would use another context.
class cuda_scope {
 public:
  explicit cuda_scope(const cuda_context& in)
      : driver_(in.driver()),
        answer_(driver_.cuCtxPushCurrent(in.handle())),
        has_mode_(driver_.cuThreadExchangeStreamCaptureMode(&mode_) == CUDA_SUCCESS) {}
  ~cuda_scope() {
    if (has_mode_) driver_.cuThreadExchangeStreamCaptureMode(&mode_);
    CUcontext ours = nullptr;
    if (is_entered()) driver_.cuCtxPopCurrent(&ours);
  }
  cuda_scope(const cuda_scope&) = delete;
  cuda_scope& operator=(const cuda_scope&) = delete;

  bool is_entered() const { return answer_ == CUDA_SUCCESS; }
  CUresult answer() const { return answer_; }

 private:
  const cuda_driver& driver_;
  const CUresult answer_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
  const bool has_mode_;  ///< true if `mode_` is the thread's previous capture mode, which the destructor restores
};

}  // namespace lsched
