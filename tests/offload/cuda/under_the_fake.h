// A fixture for tests under the fake driver. Each test begins with a fresh driver, and must release all resources that
// it allocates.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "offload/cuda/driver/driver.h"
#include "tests/support/fake_cuda/control.h"
#include "tests/support/wait_until.h"

namespace lsched::testing {

/// Returns a driver function that the library does not use, so that a test can call it. Returns nullptr if the driver
/// does not have the function.
template <class Function>
Function cuda_function(const char* name, int version) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  void* found = nullptr;
  CUdriverProcAddressQueryResult how{};
  reinterpret_cast<PFN_cuGetProcAddress_v12000>(dlsym(library, "cuGetProcAddress_v2"))(name, &found, version, 0, &how);
  return reinterpret_cast<Function>(found);
}
#define LSCHED_CUDA_FUNCTION(name, version) ::lsched::testing::cuda_function<PFN_##name##_v##version>(#name, version)

/// A device of the fake driver, whose context is current in this thread.
class fake_device {
 public:
  explicit fake_device(int device = 0) : device_(device) {
    const result<const cuda_driver*> found = load_cuda_driver();
    cuda_ = found.has_value() ? *found : nullptr;
    fake_ = find_fake_cuda();
    if (cuda_ == nullptr || fake_ == nullptr) return;
    is_there_ = cuda_->cuDevicePrimaryCtxRetain(&context_, device) == CUDA_SUCCESS &&
                cuda_->cuCtxPushCurrent(context_) == CUDA_SUCCESS;
  }
  ~fake_device() {
    if (!is_there_) return;
    CUcontext popped = nullptr;
    cuda_->cuCtxPopCurrent(&popped);
    cuda_->cuDevicePrimaryCtxRelease(device_);
  }
  fake_device(const fake_device&) = delete;
  fake_device& operator=(const fake_device&) = delete;

  bool is_there() const { return is_there_; }
  const cuda_driver& cuda() const { return *cuda_; }
  const fake_cuda_control& fake() const { return *fake_; }
  CUcontext context() const { return context_; }

  CUstream stream(unsigned flags = CU_STREAM_NON_BLOCKING) const {
    CUstream made = nullptr;
    EXPECT_EQ(cuda_->cuStreamCreateWithPriority(&made, flags, 0), CUDA_SUCCESS);
    return made;
  }
  CUevent event() const {
    CUevent made = nullptr;
    EXPECT_EQ(cuda_->cuEventCreate(&made, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    return made;
  }
  CUdeviceptr memory(std::size_t size) const {
    CUdeviceptr made = 0;
    EXPECT_EQ(cuda_->cuMemAlloc(&made, size), CUDA_SUCCESS);
    return made;
  }
  template <class Value>
  Value* pinned(std::size_t count) const {
    void* made = nullptr;
    EXPECT_EQ(cuda_->cuMemHostAlloc(&made, count * sizeof(Value), CU_MEMHOSTALLOC_PORTABLE), CUDA_SUCCESS);
    return static_cast<Value*>(made);
  }

 private:
  int device_;
  bool is_there_ = false;
  const cuda_driver* cuda_ = nullptr;
  const fake_cuda_control* fake_ = nullptr;
  CUcontext context_ = nullptr;
};

class UnderTheFake : public ::testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    alarm(100);  // ends a test that hangs in a call without a time limit
    ASSERT_TRUE(load_cuda_driver().has_value()) << load_cuda_driver().error().text;
    ASSERT_NE(find_fake_cuda(), nullptr) << "LD_LIBRARY_PATH does not name the fake driver";
    begin();
  }
  void TearDown() override {
    device_.reset();
    if (find_fake_cuda() != nullptr) {
      EXPECT_EQ(find_fake_cuda()->leaked(), expected_leaks_);
      clear();
    }
    alarm(0);
  }

  /// Sets an environment variable for the rest of the test, and restarts the driver.
  void say(const std::string& name, const std::string& value) {
    said_.push_back(name);
    setenv(name.c_str(), value.c_str(), 1);
    device_.reset();
    begin();
  }
  void expect_leaks(const std::string& lines) { expected_leaks_ = lines; }
  /// Releases the context that the test itself uses.
  void release() { device_.reset(); }
  /// Restarts the driver, as if it had never been called.
  void begin_anew() {
    device_.reset();
    begin();
  }

  const fake_device& gpu() const { return *device_; }
  const cuda_driver& cuda() const { return device_->cuda(); }
  const fake_cuda_control& fake() const { return device_->fake(); }

 private:
  void begin() {
    find_fake_cuda()->reset();
    (*load_cuda_driver())->cuInit(0);
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;  // a test may have left another mode in this thread
    (*load_cuda_driver())->cuThreadExchangeStreamCaptureMode(&mode);
    device_ = std::make_unique<fake_device>();
  }
  void clear() {
    for (const std::string& name : said_) unsetenv(name.c_str());
    find_fake_cuda()->reset();
    (*load_cuda_driver())->cuInit(0);
  }

  std::unique_ptr<fake_device> device_;
  std::vector<std::string> said_;
  std::string expected_leaks_;
};

}  // namespace lsched::testing
