#include "libsched/transport/net/stream_socket.h"

#include <sys/socket.h>

namespace lsched {
namespace {

msghdr header_of(std::span<const iovec> pieces) {
  msghdr made{};
  made.msg_iov = const_cast<iovec*>(pieces.data());
  made.msg_iovlen = pieces.size();
  return made;
}

/// Calls `move` for one piece after the other, until a call moves nothing. Returns the number of moved bytes. If
/// nothing was moved, returns the result of the first call.
template <typename Move>
ssize_t move_all(std::span<const iovec> pieces, const Move& move) {
  ssize_t all = 0;
  for (const iovec& piece : pieces) {
    for (std::size_t at = 0; at < piece.iov_len;) {
      const ssize_t now = move(static_cast<std::byte*>(piece.iov_base) + at, piece.iov_len - at);
      if (now <= 0) return all != 0 ? all : now;
      at += static_cast<std::size_t>(now);
      all += now;
    }
  }
  return all;
}

}  // namespace

bool stream_socket::encrypt(const tls_library& by, bool is_client, const hash_bytes& key) {
  auto made = tls_session::begin(by, socket_.get(), is_client, key);
  if (!made) return false;
  session_ = std::move(*made);
  return true;
}

ssize_t stream_socket::read(std::span<const iovec> into) {
  if (session_ != nullptr)
    return move_all(into, [this](std::byte* at, std::size_t room) { return session_->read(at, room); });
  msghdr all = header_of(into);
  return recvmsg(socket_.get(), &all, MSG_DONTWAIT);
}

ssize_t stream_socket::write(std::span<const iovec> from) {
  if (session_ != nullptr)
    return move_all(from, [this](const std::byte* at, std::size_t bytes) { return session_->write(at, bytes); });
  const msghdr all = header_of(from);
  return sendmsg(socket_.get(), &all, MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace lsched
