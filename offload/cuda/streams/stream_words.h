// Words in pinned memory that streams wait for: each only grows, for ever, so that one may be used again for something
// else although a stream has not yet passed a wait for what it held before.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "offload/cuda/driver/context.h"

namespace lsched {

/// A word, and what it held when it was taken: what is waited for are numbers above that.
struct stream_word {
  std::atomic<std::uint64_t>* word = nullptr;  ///< null: there is no memory left
  std::uint64_t base = 0;
};

/// Any thread.
class stream_words {
 public:
  explicit stream_words(const cuda_context& in) : in_(in) { waiting_.reserve(k_words_of_area); }

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

  /// Notes that a stream is to wait until the word holds that. False: more streams would wait than may.
  bool may_wait(CUstream stream, const std::atomic<std::uint64_t>& word, std::uint64_t value);
  void set_most_waiting(std::size_t streams) { most_waiting_ = streams; }
  std::size_t most_waiting() const { return most_waiting_; }

 private:
  static constexpr std::size_t k_words_of_area = 64;
  static constexpr std::size_t k_word_bytes = 64;  ///< a cache line each
  struct waiting {
    CUstream stream;
    const std::atomic<std::uint64_t>* word;
    std::uint64_t value;
  };
  bool add_area();

  const cuda_context& in_;
  std::mutex guard_;
  std::vector<void*> areas_;
  std::vector<std::atomic<std::uint64_t>*> free_;
  std::vector<waiting> waiting_;  ///< and some that do not any more
  std::size_t most_waiting_ = 0;
};

}  // namespace lsched
