#include "offload/cuda/streams/canary.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <thread>

#include "offload/cuda/kernels/arguments.h"

namespace lsched {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr auto k_patience = 100ms;
constexpr auto k_longest_end = 2s;  ///< time limit for work that is not blocked

CUresult launch_nothing(const cuda_context& in, CUstream into) {
  const auto any = find_device_kernel(kernel::sum, dtype::f32);
  device_arguments nothing{};
  std::array<void*, 1> parameters{&nothing};
  return in.driver().cuLaunchKernel(in.function(any->first), 1, 1, 1, 32, 1, 1, 0, into, parameters.data(), nullptr);
}

/// Waits for the event. Returns NOT_READY if the deadline has passed.
CUresult await(const cuda_context& in, CUevent event, clock::time_point deadline) {
  for (;; std::this_thread::sleep_for(20us)) {
    const CUresult answer = in.driver().cuEventQuery(event);
    if (answer != CUDA_ERROR_NOT_READY || clock::now() > deadline) return answer;
  }
}

/// Waits for all work in the stream. Returns NOT_READY if the work takes too long.
CUresult await_end(const cuda_context& in, CUstream of, CUevent end) {
  const CUresult answer = in.driver().cuEventRecord(end, of);
  return answer == CUDA_SUCCESS ? await(in, end, clock::now() + k_longest_end) : answer;
}

/// Streams that wait for a value in memory, until release() writes the value.
class waiting_streams {
 public:
  waiting_streams(const cuda_context& in, stream_words& words) : in_(in), words_(words), until_(words.take()) {}
  ~waiting_streams() {
    for (const CUstream one : all_) (void)in_.driver().cuStreamDestroy(one);
  }
  waiting_streams(const waiting_streams&) = delete;
  waiting_streams& operator=(const waiting_streams&) = delete;

  CUresult add() {
    if (until_.word == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    CUstream made = nullptr;
    const CUresult answer = in_.driver().cuStreamCreateWithPriority(&made, CU_STREAM_NON_BLOCKING, 0);
    if (answer != CUDA_SUCCESS) return answer;
    all_.push_back(made);
    return in_.driver().cuStreamWaitValue64(made, reinterpret_cast<CUdeviceptr>(until_.word), until_.base + 1,
                                            CU_STREAM_WAIT_VALUE_GEQ);
  }

  void release() {
    if (until_.word != nullptr) stream_words::raise(*until_.word, until_.base + 1);
  }

  /// Releases the streams and waits until they are idle. Returns NOT_READY if a stream is still busy.
  CUresult end(CUevent event) {
    release();
    for (const CUstream one : all_)
      if (const CUresult answer = await_end(in_, one, event); answer != CUDA_SUCCESS) return answer;
    if (until_.word != nullptr) words_.give_back(until_.word);
    return CUDA_SUCCESS;
  }

 private:
  const cuda_context& in_;
  stream_words& words_;
  stream_word until_;
  std::vector<CUstream> all_;
};

/// Launches an empty kernel and waits for its end. Even the launch may block until other streams continue. Returns
/// NOT_READY if the kernel is blocked.
CUresult get_on(const cuda_context& in, CUstream ours, CUevent end, clock::time_point deadline) {
  CUresult answer = launch_nothing(in, ours);
  if (answer == CUDA_SUCCESS) answer = in.driver().cuEventRecord(end, ours);
  if (answer == CUDA_SUCCESS) answer = await(in, end, deadline);
  return answer == CUDA_SUCCESS && clock::now() > deadline ? CUDA_ERROR_NOT_READY : answer;
}

/// Releases the streams at time `when`, or in the destructor if that is earlier.
class timed_release {
 public:
  timed_release(waiting_streams& others, clock::time_point when)
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

/// Returns true if work in stream `ours` proceeds while `streams` other streams wait. Records errors in `song`.
bool sings(const cuda_context& in, stream_words& words, CUstream ours, CUevent end, std::size_t streams,
           canary_song& song) {
  waiting_streams others(in, words);
  CUresult answer = CUDA_SUCCESS;
  {
    const auto deadline = clock::now() + k_patience;
    const timed_release at_the_end(others, deadline);
    for (std::size_t i = 0; i < streams && answer == CUDA_SUCCESS; ++i) answer = others.add();
    if (answer == CUDA_SUCCESS) answer = get_on(in, ours, end, deadline);
  }
  const CUresult ended = others.end(end);
  song.hangs = ended == CUDA_ERROR_NOT_READY;
  for (const CUresult one : {answer, ended})
    if (song.answer == CUDA_SUCCESS && one != CUDA_ERROR_NOT_READY) song.answer = one;
  return answer == CUDA_SUCCESS && ended == CUDA_SUCCESS;
}

}  // namespace

canary_song most_waiting_streams(const cuda_context& in, stream_words& words, CUstream ours) {
  const cuda_scope here(in);
  canary_song song{.answer = here.answer()};
  CUevent end = nullptr;
  if (song.answer == CUDA_SUCCESS) song.answer = in.driver().cuEventCreate(&end, CU_EVENT_DISABLE_TIMING);
  if (song.answer != CUDA_SUCCESS) return song;
  for (std::size_t streams = 1; streams <= stream_limit::k_most_tried && sings(in, words, ours, end, streams, song);
       streams *= 2)
    song.most_waiting = streams;
  if (!song.hangs) song.hangs = await_end(in, ours, end) == CUDA_ERROR_NOT_READY;
  (void)in.driver().cuEventDestroy(end);
  return song;
}

}  // namespace lsched
