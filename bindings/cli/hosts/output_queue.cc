#include "bindings/cli/hosts/output_queue.h"

#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace lsched::cli {
namespace {

/// Returns true if a write of PIPE_BUF bytes does not block.
bool has_room(int stream) {
  pollfd wait{stream, POLLOUT, 0};
  return poll(&wait, 1, 0) == 1;
}

}  // namespace

// The stream is not set to O_NONBLOCK, because this would change the stream of other processes.
bool output_queue::write_some(const std::function<void(std::size_t source, std::size_t bytes)>& written) {
  bool has_failed = false;
  while (!pieces_.empty() && (is_broken_ || has_room(stream_))) {
    piece& next = pieces_.front();
    std::size_t done = next.bytes.size() - next.written;
    if (!is_broken_) {
      const ssize_t put = write(stream_, next.bytes.data() + next.written, std::min<std::size_t>(done, PIPE_BUF));
      if (put < 0 && (errno == EAGAIN || errno == EINTR)) break;
      is_broken_ = has_failed = put < 0;
      if (put >= 0) done = static_cast<std::size_t>(put);
    }
    next.written += done;
    written(next.source, done);
    if (next.written == next.bytes.size()) pieces_.pop_front();
  }
  return !has_failed;
}

}  // namespace lsched::cli
