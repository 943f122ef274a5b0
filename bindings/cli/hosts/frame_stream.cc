#include "bindings/cli/hosts/frame_stream.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
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

constexpr std::size_t k_longest_text = 65536;

/// Erases the first `done` bytes once they are more than half of all bytes, so that the cost of all calls is linear.
void erase_done(std::string& bytes, std::size_t& done) {
  if (done <= bytes.size() / 2) return;
  bytes.erase(0, done);
  done = 0;
}

}  // namespace

frame_stream::frame_stream(int in, int out, std::uint64_t longest) : in_(in), out_(out), longest_(longest) {
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
  const std::string_view rest = std::string_view(unread_).substr(taken_);
  const auto end = rest.find('\n');
  if (end == std::string_view::npos && rest.size() < k_longest_text) return std::nullopt;
  std::string line(rest.substr(0, end));
  taken_ += std::min(rest.size(), line.size() + 1);
  erase_done(unread_, taken_);
  return line;
}

std::optional<frame> frame_stream::take() {
  header head{};
  const std::string_view rest = std::string_view(unread_).substr(taken_);
  if (has_fault_ || rest.size() < sizeof head) return std::nullopt;
  std::memcpy(&head, rest.data(), sizeof head);
  has_fault_ = head.bytes > longest_;
  if (has_fault_ || rest.size() - sizeof head < head.bytes) return std::nullopt;
  frame next{head.kind, head.number, std::string(rest.substr(sizeof head, head.bytes))};
  taken_ += sizeof head + head.bytes;
  erase_done(unread_, taken_);
  return next;
}

void frame_stream::send(frame_kind kind, std::int32_t number, std::string_view bytes) {
  const header head{kind, number, bytes.size()};
  unsent_.append(reinterpret_cast<const char*>(&head), sizeof head);
  unsent_ += bytes;
}

bool frame_stream::flush() {
  while (unsent() > 0) {
    const ssize_t put = write(out_, unsent_.data() + sent_, unsent());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return errno == EAGAIN;
    sent_ += static_cast<std::size_t>(put);
    erase_done(unsent_, sent_);
  }
  return true;
}

}  // namespace lsched::cli
