// The maximum number of streams of a device that may wait for words in memory at the same time. All ranks of the
// process that use the device share this limit, because their streams are in one context and share hardware queues.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "offload/cuda/driver/driver.h"

namespace lsched {

/// The maximum number of streams of one device that may wait at the same time, and the present waits. Any thread may
/// call the functions. Memory is allocated only at construction.
class stream_limit {
 public:
  /// Maximum number of waiting streams that is tested when a device is attached (canary.h).
  static constexpr std::size_t k_most_tried = 4;

  /// Returns the object for a device. All callers share this object.
  static std::shared_ptr<stream_limit> of_device(std::int32_t number);

  /// Returns a lock that serializes trials (canary.h). A rank must hold this lock during its trial.
  std::unique_lock<std::mutex> begin_trial() { return std::unique_lock(trial_); }
  /// Lowers the limit to `streams`, the result of a trial, unless the limit is already lower.
  void lower(std::size_t streams);
  std::size_t most() const { return most_.load(); }

  /// Records that a stream will wait until `word` reaches `value`. A stream with several waits is counted once. The
  /// per-thread default stream is counted once for each thread. Returns false if the wait would exceed the limit.
  bool may_wait(CUstream stream, const std::atomic<std::uint64_t>& word, std::uint64_t value);

  /// Removes the waits for words in [memory, memory + bytes), because this memory will be freed. No stream may wait for
  /// these words any more.
  void forget(const void* memory, std::size_t bytes);

 private:
  struct wait {
    std::uintptr_t stream;
    const std::atomic<std::uint64_t>* word;
    std::uint64_t value;
  };
  template <class Condition>
  void erase_if(const Condition& is_over);

  std::mutex trial_;
  std::atomic<std::size_t> most_{k_most_tried};
  std::mutex guard_;
  std::array<wait, 256> waits_;  ///< the first number_ elements are in use, one for each stream and word; some of these
                                 ///< waits may have ended
  std::size_t number_ = 0;
};

}  // namespace lsched
