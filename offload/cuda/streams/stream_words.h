// Words in pinned memory, for streams that wait until a word reaches a value. The value of a word only grows. So a word
// can be reused for another purpose even while a stream still waits for an earlier value: this wait ends at any higher
// value.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "offload/cuda/driver/context.h"
#include "offload/cuda/streams/stream_limit.h"

namespace lsched {

/// A word, and its value at the time of take(). Streams wait for higher values.
struct stream_word {
  std::atomic<std::uint64_t>* word = nullptr;  ///< null: no memory is left
  std::uint64_t base = 0;
};

/// The words of one rank. The object also limits the number of streams that wait. Any thread may call the functions.
class stream_words {
 public:
  explicit stream_words(const cuda_context& in) : in_(in), limit_(stream_limit::of_device(in.number())) {}

  /// Frees the words. To free them, the driver waits for all work of the device.
  ~stream_words();
  stream_words(const stream_words&) = delete;
  stream_words& operator=(const stream_words&) = delete;

  stream_word take();
  /// Gives back a word from take(). The word must have reached every value for which a stream waits.
  void give_back(std::atomic<std::uint64_t>* word);

  /// Raises the word to at least `value`.
  static void raise(std::atomic<std::uint64_t>& word, std::uint64_t value);

  // The number of waiting streams is limited, because too many waiting streams would block the device's other streams.

  /// Returns the limit, which all ranks that use the device share.
  stream_limit& limit() { return *limit_; }
  /// Allows streams to wait for this rank's words.
  void let_streams_wait() { do_wait_ = true; }
  /// Returns the current maximum number of waiting streams, or 0 if no stream may wait.
  std::size_t most_waiting() const { return do_wait_ ? limit_->most() : 0; }
  /// Records that a stream will wait until `word` reaches `value`. Returns false if the stream is not allowed to wait.
  bool may_wait(CUstream stream, const std::atomic<std::uint64_t>& word, std::uint64_t value) {
    return do_wait_ && limit_->may_wait(stream, word, value);
  }
  /// Removes all waits. All words must have reached the values for which streams wait.
  void forget_streams();

 private:
  static constexpr std::size_t k_words_of_area = 64;
  static constexpr std::size_t k_word_bytes = 64;  ///< a cache line for each word
  bool add_area();

  const cuda_context& in_;
  std::mutex guard_;
  std::vector<void*> areas_;
  std::vector<std::atomic<std::uint64_t>*> free_;
  const std::shared_ptr<stream_limit> limit_;
  bool do_wait_ = false;
};

}  // namespace lsched
