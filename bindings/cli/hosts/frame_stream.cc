#include "bindings/cli/hosts/frame_stream.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace lsched::cli {
namespace {

struct header {
  frame_kind kind;
  std::int32_t number;
  std::uint64_t bytes;
};

}  // namespace

frame_stream::frame_stream(int in, int out) : in_(in), out_(out) {
  for (const int each : {in, out}) fcntl(each, F_SETFL, fcntl(each, F_GETFL) | O_NONBLOCK);
}

frame_stream::~frame_stream() {
  close(in_);
  if (out_ != in_) close(out_);
}

bool frame_stream::read_some() {
  std::array<char, 65536> piece{};
  const ssize_t got = read(in_, piece.data(), piece.size());
  if (got > 0) unread_.append(piece.data(), static_cast<std::size_t>(got));
  return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

std::optional<std::string> frame_stream::take_line() {
  const auto end = unread_.find('\n');
  if (end == std::string::npos) return std::nullopt;
  std::string line = unread_.substr(0, end);
  unread_.erase(0, end + 1);
  return line;
}

std::optional<frame> frame_stream::take() {
  header head{};
  if (unread_.size() < sizeof head) return std::nullopt;
  std::memcpy(&head, unread_.data(), sizeof head);
  if (unread_.size() - sizeof head < head.bytes) return std::nullopt;
  frame next{head.kind, head.number, unread_.substr(sizeof head, head.bytes)};
  unread_.erase(0, sizeof head + head.bytes);
  return next;
}

void frame_stream::send(frame_kind kind, std::int32_t number, std::string_view bytes) {
  const header head{kind, number, bytes.size()};
  unsent_.append(reinterpret_cast<const char*>(&head), sizeof head);
  unsent_ += bytes;
}

bool frame_stream::flush() {
  while (!unsent_.empty()) {
    const ssize_t put = write(out_, unsent_.data(), unsent_.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return errno == EAGAIN;
    unsent_.erase(0, static_cast<std::size_t>(put));
  }
  return true;
}

}  // namespace lsched::cli
