// Keeps the output of ranks until it can be written to a stream. The reader of the stream may pause, but the command
// must continue to serve its connections.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <string>

namespace lsched::cli {

class output_queue {
 public:
  /// `stream` is a descriptor, which other processes may use, too.
  explicit output_queue(int stream) : stream_(stream) {}

  /// Adds bytes. When these bytes have been written, write_some() passes `source` to its function `written`.
  void add(std::size_t source, std::string bytes) { pieces_.push_back({source, std::move(bytes)}); }
  /// Returns a descriptor for a poll() with POLLOUT, or -1 if the queue is empty.
  int awaited() const { return pieces_.empty() ? -1 : stream_; }
  bool is_empty() const { return pieces_.empty(); }

  /// Writes as many bytes as the stream accepts without blocking. Returns false if a write fails, with the reason in
  /// `errno`. The queue then drops these bytes and all later bytes.
  bool write_some(const std::function<void(std::size_t source, std::size_t bytes)>& written);

 private:
  struct piece {
    std::size_t source;
    std::string bytes;
    std::size_t written = 0;
  };

  const int stream_;
  bool is_broken_ = false;
  std::deque<piece> pieces_;
};

}  // namespace lsched::cli
