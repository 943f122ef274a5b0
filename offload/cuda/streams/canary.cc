#include "offload/cuda/streams/canary.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <thread>

#include "offload/cuda/kernels/arguments.h"

namespace lsched {
namespace {

using namespace std::chrono_literals;

constexpr auto k_patience = 100ms;

/// Streams that wait, until it ends.
class waiting_streams {
 public:
  waiting_streams(const cuda_context& in, stream_words& words) : in_(in), words_(words), until_(words.take()) {}
  ~waiting_streams() {
    release();
    for (const CUstream one : all_) {
      (void)in_.driver().cuStreamSynchronize(one);
      (void)in_.driver().cuStreamDestroy(one);
    }
    if (until_.word != nullptr) words_.give_back(until_.word);
  }
  waiting_streams(const waiting_streams&) = delete;
  waiting_streams& operator=(const waiting_streams&) = delete;

  bool add() {
    CUstream made = nullptr;
    if (until_.word == nullptr ||
        in_.driver().cuStreamCreateWithPriority(&made, CU_STREAM_NON_BLOCKING, 0) != CUDA_SUCCESS)
      return false;
    all_.push_back(made);
    return in_.driver().cuStreamWaitValue64(made, reinterpret_cast<CUdeviceptr>(until_.word), until_.base + 1,
                                            CU_STREAM_WAIT_VALUE_GEQ) == CUDA_SUCCESS;
  }
  void release() {
    if (until_.word != nullptr) stream_words::raise(*until_.word, until_.base + 1);
  }

 private:
  const cuda_context& in_;
  stream_words& words_;
  stream_word until_;
  std::vector<CUstream> all_;
};

/// A kernel, in which there is nothing to do, and its end. Even the launch may not come back before the others go on.
bool gets_on(const cuda_context& in, CUstream ours, CUevent end, std::chrono::steady_clock::time_point deadline) {
  const auto any = find_device_kernel(kernel::sum, dtype::f32);
  device_arguments nothing{};
  std::array<void*, 1> parameters{&nothing};
  if (in.driver().cuLaunchKernel(in.function(any->first), 1, 1, 1, 32, 1, 1, 0, ours, parameters.data(), nullptr) !=
          CUDA_SUCCESS ||
      in.driver().cuEventRecord(end, ours) != CUDA_SUCCESS)
    return false;
  while (in.driver().cuEventQuery(end) == CUDA_ERROR_NOT_READY) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(20us);
  }
  return std::chrono::steady_clock::now() <= deadline;
}

/// Calls release() of the others after that time, unless it ends before.
class timed_release {
 public:
  timed_release(waiting_streams& others, std::chrono::steady_clock::time_point when)
      : thread_([this, &others, when](const std::stop_token& stop) {
          std::unique_lock lock(guard_);
          changed_.wait_until(lock, stop, when, [] { return false; });
          others.release();
        }) {}

 private:
  std::mutex guard_;
  std::condition_variable_any changed_;
  std::jthread thread_;
};

}  // namespace

std::size_t most_waiting_streams(const cuda_context& in, stream_words& words, CUstream ours) {
  const cuda_scope here(in);
  CUevent end = nullptr;
  if (in.driver().cuEventCreate(&end, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) return 0;
  std::size_t most = 0;
  for (std::size_t streams = 1; streams <= k_most_tried; streams *= 2) {
    waiting_streams others(in, words);
    const auto deadline = std::chrono::steady_clock::now() + k_patience;
    const timed_release at_the_end(others, deadline);
    bool passes = true;
    for (std::size_t i = 0; i < streams && passes; ++i) passes = others.add();
    if (!passes || !gets_on(in, ours, end, deadline)) break;
    most = streams;
  }
  (void)in.driver().cuStreamSynchronize(ours);
  (void)in.driver().cuEventDestroy(end);
  return most;
}

}  // namespace lsched
