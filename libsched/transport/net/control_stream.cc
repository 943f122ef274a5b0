#include "libsched/transport/net/control_stream.h"

#include <errno.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace lsched {
namespace {

/// Size of the buffer for incoming bytes. The buffer grows if a record is longer. One system call can read a small
/// payload and a few records.
constexpr std::size_t k_read_bytes = k_small_bytes + 512;
/// After a long frame was written, the buffer keeps at most this number of bytes beyond the reserved memory.
constexpr std::size_t k_most_kept = std::size_t{16} << 10;

}  // namespace

socket_state state_of_error() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? socket_state::blocked : socket_state::failed;
}

bool is_error_of_cut() {
  return errno == ETIMEDOUT || errno == EHOSTUNREACH || errno == EHOSTDOWN || errno == ENETUNREACH ||
         errno == ENETDOWN || errno == EACCES || errno == ECONNREFUSED;
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

socket_state control_stream::write(frame head, std::span<const std::byte> first, std::span<const std::byte> second) {
  head.bytes = static_cast<std::uint32_t>(first.size() + second.size());
  const auto before = std::span<const std::byte>(outgoing_).subspan(written_);
  const std::array all{before, std::as_bytes(std::span(&head, 1)), first, second};
  std::array<iovec, all.size()> pieces{};
  for (std::size_t i = 0; i < all.size(); ++i) pieces[i] = {const_cast<std::byte*>(all[i].data()), all[i].size()};
  const ssize_t now = socket_.write(pieces);
  const socket_state how = now < 0 ? state_of_error() : socket_state::blocked;
  auto moved = static_cast<std::size_t>(std::max<ssize_t>(now, 0));
  const std::size_t of_before = std::min(moved, before.size());
  written_ += of_before;
  moved -= of_before;
  if (moved == 0) return put(head, first, second), how;
  for (std::size_t i = 1; i < all.size(); ++i) {
    const std::size_t skipped = std::min(moved, all[i].size());
    outgoing_.insert(outgoing_.end(), all[i].begin() + static_cast<std::ptrdiff_t>(skipped), all[i].end());
    moved -= skipped;
  }
  return unwritten() == 0 ? write() : socket_state::blocked;
}

socket_state control_stream::read(std::byte* place) {
  if (is_landing_) return read_payload(place);
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

// Reads the rest of the payload. The same system call also reads the frames that follow into the buffer. While a
// message lands, the buffer is empty.
socket_state control_stream::read_payload(std::byte* place) {
  const std::uint64_t left = landing_.what.bytes - landing_.moved;
  const std::size_t room = place != nullptr ? left : std::min<std::uint64_t>(left, incoming_.size());
  std::array<iovec, 2> pieces{
      {{place != nullptr ? place + landing_.moved : incoming_.data(), room}, {incoming_.data(), incoming_.size()}}};
  const ssize_t now = socket_.read(std::span(pieces).first(place != nullptr ? 2 : 1));
  if (now == 0) return socket_state::ended;
  if (now < 0) return state_of_error() == socket_state::blocked ? socket_state::idle : socket_state::failed;
  const std::size_t payload = std::min(room, static_cast<std::size_t>(now));
  landing_.moved += payload;
  end_ = static_cast<std::size_t>(now) - payload;
  const bool is_full = place != nullptr ? end_ == incoming_.size() : payload == room;
  return is_full ? socket_state::blocked : socket_state::idle;
}

bool control_stream::begin_landing() {
  constexpr std::size_t heads = sizeof(frame) + sizeof(message_head);
  if (is_landing_ || end_ - begin_ < heads) return false;
  std::memcpy(&landing_.head, incoming_.data() + begin_, sizeof(frame));
  std::memcpy(&landing_.what, incoming_.data() + begin_ + sizeof(frame), sizeof(message_head));
  landing_.moved = 0;
  landing_.is_ignored = false;
  if (landing_.head.kind != frame_kind::message || sizeof(frame) + landing_.head.bytes <= incoming_.size())
    return false;
  begin_ += heads;
  is_landing_ = landing_.what.bytes == landing_.head.bytes - sizeof(message_head);
  is_invalid_ = !is_landing_;
  return is_landing_;
}

void control_stream::land(std::byte* place) {
  landing_.moved = end_ - begin_;
  if (place != nullptr) std::memcpy(place, incoming_.data() + begin_, landing_.moved);
  begin_ = end_ = 0;
}

std::optional<control_stream::incoming> control_stream::next() {
  if (is_landing_) {
    if (landing_.moved < landing_.what.bytes) return std::nullopt;
    is_landing_ = false;
    return incoming{landing_.head, std::as_bytes(std::span(&landing_.what, 1)), true, landing_.is_ignored};
  }
  const std::size_t here = end_ - begin_;
  if (here < sizeof(frame)) return std::nullopt;
  incoming news{};
  std::memcpy(&news.head, incoming_.data() + begin_, sizeof news.head);
  is_invalid_ = is_invalid_ || news.head.bytes > most_bytes_;
  if (is_invalid_) return std::nullopt;
  const std::size_t whole = sizeof(frame) + news.head.bytes;
  if (whole > here) {
    if (whole > incoming_.size() && news.head.kind != frame_kind::message) incoming_.resize(whole);
    return std::nullopt;
  }
  news.bytes = std::span(incoming_).subspan(begin_ + sizeof(frame), news.head.bytes);
  begin_ += whole;
  return news;
}

}  // namespace lsched
