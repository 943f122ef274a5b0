#include "libsched/transport/net/bulk_stream.h"

#include <algorithm>

namespace lsched {
namespace {

/// Written instead of the payload of an abandoned message.
constexpr std::array<std::byte, 16384> k_zeros{};
/// Largest number of payload bytes in one system call. This limit makes writes and reads alternate.
constexpr std::uint64_t k_most_in_call = std::uint64_t{64} << 10;

/// The pieces of memory for one system call that reads or writes.
class pieces {
 public:
  void add(const void* memory, std::size_t bytes) {
    if (bytes != 0) list_[count_++] = {const_cast<void*>(memory), bytes};
  }
  std::span<const iovec> all() const { return std::span(list_).first(count_); }

 private:
  std::array<iovec, 3> list_{};
  std::size_t count_ = 0;
};

}  // namespace

void bulk_stream::send(link_id link, const frame& about, const message_head& what, const std::byte* source) {
  transfers_.push_back({link, about, what, source});
}

bool bulk_stream::abandon(link_id link) {
  const auto is_live = [link](const transfer& one) { return one.link == link && one.source != nullptr; };
  const auto found = std::ranges::find_if(transfers_, is_live);
  if (found == transfers_.end()) return false;
  const auto place = static_cast<std::size_t>(found - transfers_.begin());
  const bool is_begun = found->moved != 0 || (is_writing_ && place == turn_);
  found->source = nullptr;
  if (is_begun) return true;
  transfers_.erase(found);
  if (place < turn_) --turn_;
  return true;
}

// Prepares the next part of the transfer whose turn has come. If the transfer was abandoned between two parts, only the
// head `broken` remains to be written.
void bulk_stream::begin_part() {
  if (turn_ >= transfers_.size()) turn_ = 0;
  const transfer& of = transfers_[turn_];
  outgoing_ = {of.about, of.what};
  outgoing_.about.kind = of.source == nullptr ? frame_kind::broken : frame_kind::part;
  const std::uint64_t part = of.source == nullptr ? 0 : std::min(k_part_bytes, of.what.bytes - of.moved);
  outgoing_.about.bytes = static_cast<std::uint32_t>(part);
  is_last_ = of.source != nullptr && of.moved + part == of.what.bytes;
  written_ = 0;
  is_writing_ = true;
}

socket_state bulk_stream::write(std::vector<link_id>& sent, std::uint64_t most) {
  while (!transfers_.empty() && most != 0) {
    if (!is_writing_) begin_part();
    if (const socket_state how = write_part(most); how != socket_state::idle) return how;
    if (is_writing_) break;
    transfer& of = transfers_[turn_];
    of.moved += outgoing_.about.bytes;
    if (!is_last_ && outgoing_.about.kind == frame_kind::part) {
      ++turn_;
      continue;
    }
    if (of.source != nullptr) sent.push_back(of.link);
    transfers_.erase(transfers_.begin() + static_cast<std::ptrdiff_t>(turn_));
  }
  return socket_state::idle;
}

// Writes the rest of the part, but stops after about `left` bytes. Subtracts the number of written bytes from `left`.
// Returns `idle` if the part was written completely, or if `left` has become 0. If the part was written completely,
// is_writing_ is false afterwards.
socket_state bulk_stream::write_part(std::uint64_t& left) {
  const transfer& of = transfers_[turn_];
  constexpr std::uint64_t head = sizeof(bulk_head);
  const std::uint64_t part = outgoing_.about.bytes;
  const std::uint64_t whole = head + part + (is_last_ ? head : 0);
  while (written_ < whole && left != 0) {
    if (written_ <= head + part) {
      last_ = {of.about, of.what};
      last_.about.kind = of.source == nullptr ? frame_kind::broken : frame_kind::complete;
    }
    pieces now;
    if (written_ < head) now.add(reinterpret_cast<const std::byte*>(&outgoing_) + written_, head - written_);
    const std::uint64_t at = std::clamp(written_, head, head + part) - head;
    const std::uint64_t rest = std::min(part - at, of.source != nullptr ? k_most_in_call : k_zeros.size());
    now.add(of.source != nullptr ? of.source + of.moved + at : k_zeros.data(), rest);
    if (is_last_ && at + rest == part) {
      const std::uint64_t skipped = std::max(written_, head + part) - head - part;
      now.add(reinterpret_cast<const std::byte*>(&last_) + skipped, head - skipped);
    }
    const ssize_t moved = socket_.write(now.all());
    if (moved < 0) return state_of_error();
    written_ += static_cast<std::uint64_t>(moved);
    moved_ += static_cast<std::uint64_t>(moved);
    left -= std::min(left, static_cast<std::uint64_t>(moved));
  }
  is_writing_ = written_ < whole;
  return socket_state::idle;
}

// A head that was read completely is handled before this function returns, because the kernel does not report bytes
// that this process has already read.
socket_state bulk_stream::read(bulk_receiver& into, std::uint64_t most) {
  for (std::uint64_t all = 0; all < most || head_read_ == sizeof next_;) {
    const std::uint64_t before = unread_;
    const socket_state how = before == 0 ? read_head(into) : read_part(into);
    if (how != socket_state::blocked) return how;
    all += before == 0 ? sizeof(bulk_head) : before - std::min(before, unread_);
  }
  return socket_state::blocked;
}

/// Returns `blocked` if more bytes may have arrived.
socket_state bulk_stream::read_head(bulk_receiver& into) {
  if (head_read_ < sizeof next_) {
    const iovec rest{reinterpret_cast<std::byte*>(&next_) + head_read_, sizeof next_ - head_read_};
    const ssize_t now = socket_.read({&rest, 1});
    if (now == 0) return socket_state::ended;
    if (now < 0) return state_of_error() == socket_state::blocked ? socket_state::idle : socket_state::failed;
    head_read_ += static_cast<std::size_t>(now);
    if (head_read_ < sizeof next_) return socket_state::idle;
  }
  is_invalid_ = !take_head(into);
  return is_invalid_ ? socket_state::failed : socket_state::blocked;
}

bool bulk_stream::take_head(bulk_receiver& into) {
  head_read_ = 0;
  const frame& about = next_.about;
  if (about.kind == frame_kind::complete || about.kind == frame_kind::broken) return into.end(about);
  if (about.kind != frame_kind::part || about.bytes == 0 || about.bytes > k_part_bytes) return false;
  if (!into.part(about, next_.what)) return false;
  current_ = about;
  unread_ = about.bytes;
  return true;
}

// Reads the rest of the part. The same system call also reads the head that follows.
socket_state bulk_stream::read_part(bulk_receiver& into) {
  std::array<std::byte, 16384> dropped;
  std::byte* const target = into.target(current_);
  const std::uint64_t room = target != nullptr ? unread_ : std::min<std::uint64_t>(unread_, dropped.size());
  pieces now;
  now.add(target != nullptr ? target : dropped.data(), room);
  if (room == unread_) now.add(&next_, sizeof next_);
  const ssize_t moved = socket_.read(now.all());
  if (moved == 0) return socket_state::ended;
  if (moved < 0) return state_of_error() == socket_state::blocked ? socket_state::idle : socket_state::failed;
  const std::uint64_t payload = std::min(room, static_cast<std::uint64_t>(moved));
  unread_ -= payload;
  moved_ += payload;
  into.moved(current_, payload);
  head_read_ = static_cast<std::size_t>(moved) - payload;
  if (payload < room || (unread_ == 0 && head_read_ == 0)) return socket_state::idle;
  return socket_state::blocked;
}

}  // namespace lsched
