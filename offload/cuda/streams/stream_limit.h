// How many streams of a device may wait for words at a time. One number for all ranks of the process that use the
// device: their streams are of one context, in which they share its queues.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "offload/cuda/driver/driver.h"

namespace lsched {

/// Any thread. Allocates nothing once it is there.
class stream_limit {
 public:
  /// What attach tries, at most.
  static constexpr std::size_t k_most_tried = 4;

  /// That of a device, by its number: the same one as long as anybody has it.
  static std::shared_ptr<stream_limit> of_device(std::int32_t number);

  /// Ranks try how many may wait one after the other, each while it has this lock.
  std::unique_lock<std::mutex> begin_trial() { return std::unique_lock(trial_); }
  /// What one has found. The least holds for all.
  void lower(std::size_t streams);
  std::size_t most() const { return most_.load(); }

  /// Notes that a stream is to wait until the word holds that. A stream that waits several times is one that waits; the
  /// default stream of threads is one for each thread. False: it must not wait.
  bool may_wait(CUstream stream, const std::atomic<std::uint64_t>& word, std::uint64_t value);

  /// No stream waits any more for a word in that memory, which is about to go.
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
  std::array<wait, 256> waits_;  ///< the first `number_`, of which some may have ended; one for a stream and a word
  std::size_t number_ = 0;
};

}  // namespace lsched
