// Parts of an application, for tests under the fake driver: a current context in each thread, and buffers in host or
// device memory.
#pragma once

#include <vector>

#include "tests/offload/cuda/under_the_fake.h"

namespace lsched::testing {

using floats = std::vector<float>;

/// Makes the device's context current in this thread while the object exists, as in a thread of an application.
class context_of_thread {
 public:
  explicit context_of_thread(const fake_device& gpu) : gpu_(gpu) {
    EXPECT_EQ(gpu.cuda().cuCtxPushCurrent(gpu.context()), CUDA_SUCCESS);
  }
  ~context_of_thread() {
    CUcontext popped = nullptr;
    EXPECT_EQ(gpu_.cuda().cuCtxPopCurrent(&popped), CUDA_SUCCESS);
    EXPECT_EQ(popped, gpu_.context()) << "the library has left another context current";
  }
  context_of_thread(const context_of_thread&) = delete;
  context_of_thread& operator=(const context_of_thread&) = delete;

 private:
  const fake_device& gpu_;
};

/// A buffer of the application, in host memory or in the memory of a device.
class user_buffer {
 public:
  user_buffer(const fake_device& gpu, bool on_device, const floats& content)
      : gpu_(gpu), host_(content), bytes_(content.size() * sizeof(float)) {
    if (!on_device || bytes_ == 0) return;
    device_ = gpu.memory(bytes_);
    EXPECT_EQ(gpu.fake().write(device_, host_.data(), bytes_), 1);
  }
  ~user_buffer() { EXPECT_TRUE(device_ == 0 || gpu_.cuda().cuMemFree(device_) == CUDA_SUCCESS); }
  user_buffer(const user_buffer&) = delete;
  user_buffer& operator=(const user_buffer&) = delete;

  /// Drops the device memory without freeing it. A test needs this if the driver no longer frees memory.
  void forget() { device_ = 0; }

  void* data() { return device_ != 0 ? reinterpret_cast<void*>(device_) : static_cast<void*>(host_.data()); }
  const floats& content() {
    EXPECT_TRUE(device_ == 0 || gpu_.fake().read(host_.data(), device_, bytes_) == 1);
    return host_;
  }

 private:
  const fake_device& gpu_;
  floats host_;
  std::size_t bytes_;
  CUdeviceptr device_ = 0;
};

}  // namespace lsched::testing
