// Words in pinned memory. A stream can wait until a word reaches a value. The value of a word only grows. So a word can
// be reused for another purpose even while a stream is still in an earlier wait.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "offload/cuda/driver/context.h"
#include "offload/cuda/streams/stream_limit.h"

namespace lsched {

/// A word, and the word's value when take() returned it. Streams wait for higher values.
struct stream_word {
  std::atomic<std::uint64_t>* word = nullptr;  ///< null: no memory is left
  std::uint64_t base = 0;
};

/// The words of one rank, and the limit on streams that wait for words. Any thread.
class stream_words {
 public:
  explicit stream_words(const cuda_context& in) : in_(in), limit_(stream_limit::of_device(in.number())) {}

  /// Waits for all work of the device.
  ~stream_words();
  stream_words(const stream_words&) = delete;
  stream_words& operator=(const stream_words&) = delete;

  stream_word take();
  /// Makes a word available to take() again. The word must have reached every value that a stream waits for.
  void give_back(std::atomic<std::uint64_t>* word);

  /// Raises the word to at least `value`.
  static void raise(std::atomic<std::uint64_t>& word, std::uint64_t value);

  // The number of waiting streams is limited, because too many of them would block the device's other streams.

  /// Returns the limit that all ranks of the device share.
  stream_limit& limit() { return *limit_; }
  /// Lets streams wait for this rank's words.
  void let_streams_wait() { do_wait_ = true; }
  /// Returns the maximum number of waiting streams, as known so far; 0: no stream may wait.
  std::size_t most_waiting() const { return do_wait_ ? limit_->most() : 0; }
  /// Records that a stream will wait until `word` reaches `value`. Returns false if the stream must not wait.
  bool may_wait(CUstream stream, const std::atomic<std::uint64_t>& word, std::uint64_t value) {
    return do_wait_ && limit_->may_wait(stream, word, value);
  }
  /// Forgets all waits, because all words have reached the values that streams wait for.
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
