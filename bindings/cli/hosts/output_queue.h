// Output of ranks, until the reader of a stream takes it. The reader of the command's output may pause, and the command
// must serve the connections meanwhile.
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

  /// `source` is passed to `written` of write_some() when the stream has taken the bytes.
  void add(std::size_t source, std::string bytes) { pieces_.push_back({source, std::move(bytes)}); }
  /// Returns a descriptor to wait for with POLLOUT, or -1 if no bytes wait.
  int awaited() const { return pieces_.empty() ? -1 : stream_; }
  bool is_empty() const { return pieces_.empty(); }

  /// Writes as much as the stream takes without blocking. Returns false if the stream takes no bytes any more. This and
  /// all later bytes are then dropped, and `errno` has the reason.
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
