#include "libsched/transport/net/control_stream.h"

#include <errno.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace lsched {
namespace {

/// Size of the buffer for incoming bytes, unless a frame is longer.
constexpr std::size_t k_read_bytes = std::size_t{8} << 10;
/// Memory beyond the reserved memory that is kept after a long frame was written.
constexpr std::size_t k_most_kept = std::size_t{16} << 10;

}  // namespace

socket_state state_of_error() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? socket_state::blocked : socket_state::failed;
}

control_stream::control_stream(stream_socket socket, std::size_t most_bytes)
    : socket_(std::move(socket)), most_bytes_(most_bytes), incoming_(k_read_bytes) {}

void control_stream::reserve(std::size_t bytes) {
  reserved_ += bytes;
  outgoing_.reserve(2 * reserved_);  // written bytes are removed when they are half of the buffer
}

void control_stream::put(frame head, std::span<const std::byte> first, std::span<const std::byte> second) {
  if (written_ == outgoing_.size() || written_ > reserved_) {
    outgoing_.erase(outgoing_.begin(), outgoing_.begin() + static_cast<std::ptrdiff_t>(written_));
    written_ = 0;
  }
  head.bytes = static_cast<std::uint32_t>(first.size() + second.size());
  const auto add = [this](const void* from, std::size_t bytes) {
    const auto* const begin = static_cast<const std::byte*>(from);
    outgoing_.insert(outgoing_.end(), begin, begin + bytes);
  };
  add(&head, sizeof head);
  add(first.data(), first.size());
  add(second.data(), second.size());
}

socket_state control_stream::write() {
  while (unwritten() != 0) {
    const iovec rest{outgoing_.data() + written_, unwritten()};
    const ssize_t now = socket_.write({&rest, 1});
    if (now < 0) return state_of_error();
    written_ += static_cast<std::size_t>(now);
  }
  outgoing_.clear();
  written_ = 0;
  if (outgoing_.capacity() > 2 * reserved_ + k_most_kept) {
    outgoing_ = {};
    outgoing_.reserve(2 * reserved_);
  }
  return socket_state::idle;
}

socket_state control_stream::read() {
  if (begin_ != 0) std::memmove(incoming_.data(), incoming_.data() + begin_, end_ - begin_);
  end_ -= std::exchange(begin_, 0);
  const std::size_t room = incoming_.size() - end_;
  const iovec into{incoming_.data() + end_, room};
  const ssize_t now = socket_.read({&into, 1});
  if (now == 0) return socket_state::ended;
  if (now < 0) return state_of_error() == socket_state::blocked ? socket_state::idle : socket_state::failed;
  end_ += static_cast<std::size_t>(now);
  return static_cast<std::size_t>(now) == room ? socket_state::blocked : socket_state::idle;
}

std::optional<control_stream::incoming> control_stream::next() {
  const std::size_t here = end_ - begin_;
  if (here < sizeof(frame)) return std::nullopt;
  incoming news{};
  std::memcpy(&news.head, incoming_.data() + begin_, sizeof news.head);
  is_invalid_ = is_invalid_ || news.head.bytes > most_bytes_;
  if (is_invalid_) return std::nullopt;
  const std::size_t whole = sizeof(frame) + news.head.bytes;
  if (whole > here) {
    if (whole > incoming_.size()) incoming_.resize(whole);
    return std::nullopt;
  }
  news.bytes = std::span(incoming_).subspan(begin_ + sizeof(frame), news.head.bytes);
  begin_ += whole;
  return news;
}

}  // namespace lsched
