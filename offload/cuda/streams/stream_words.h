// Words in pinned memory that streams wait for: each only grows, for ever, so that one may be used again for something
// else although a stream has not yet passed a wait for what it held before.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "offload/cuda/driver/context.h"
#include "offload/cuda/streams/stream_limit.h"

namespace lsched {

/// A word, and what it held when it was taken: what is waited for are numbers above that.
struct stream_word {
  std::atomic<std::uint64_t>* word = nullptr;  ///< null: there is no memory left
  std::uint64_t base = 0;
};

/// Any thread.
class stream_words {
 public:
  explicit stream_words(const cuda_context& in) : in_(in), limit_(stream_limit::of_device(in.number())) {}

  /// Waits for the device.
  ~stream_words();
  stream_words(const stream_words&) = delete;
  stream_words& operator=(const stream_words&) = delete;

  stream_word take();
  /// It must hold by now whatever a stream waits for there.
  void give_back(std::atomic<std::uint64_t>* word);

  /// Of the word: so much at least.
  static void raise(std::atomic<std::uint64_t>& word, std::uint64_t value);

  // Streams that wait at a time. A device can have so many of them that its other streams do not get on.

  /// Of all ranks of the device.
  stream_limit& limit() { return *limit_; }
  /// From now on streams wait for this rank's words.
  void let_streams_wait() { do_wait_ = true; }
  /// How many may at a time, as far as it is known; 0: none waits.
  std::size_t most_waiting() const { return do_wait_ ? limit_->most() : 0; }
  /// Notes that a stream is to wait until the word holds that. False: it must not.
  bool may_wait(CUstream stream, const std::atomic<std::uint64_t>& word, std::uint64_t value) {
    return do_wait_ && limit_->may_wait(stream, word, value);
  }
  /// All words hold by now whatever streams wait for: no matter what the device does with them later.
  void forget_streams();

 private:
  static constexpr std::size_t k_words_of_area = 64;
  static constexpr std::size_t k_word_bytes = 64;  ///< a cache line each
  bool add_area();

  const cuda_context& in_;
  std::mutex guard_;
  std::vector<void*> areas_;
  std::vector<std::atomic<std::uint64_t>*> free_;
  const std::shared_ptr<stream_limit> limit_;
  bool do_wait_ = false;
};

}  // namespace lsched
