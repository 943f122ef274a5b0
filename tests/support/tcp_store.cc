#include "tests/support/tcp_store.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <vector>

namespace lsched::testing {
namespace {

bool send_all(int to, const void* data, std::size_t bytes) {
  const auto* next = static_cast<const std::byte*>(data);
  for (ssize_t done; bytes > 0; next += done, bytes -= static_cast<std::size_t>(done))
    if ((done = send(to, next, bytes, MSG_NOSIGNAL)) <= 0) return false;
  return true;
}

bool receive_all(int from, void* data, std::size_t bytes) {
  auto* next = static_cast<std::byte*>(data);
  for (ssize_t done; bytes > 0; next += done, bytes -= static_cast<std::size_t>(done))
    if ((done = recv(from, next, bytes, 0)) <= 0) return false;
  return true;
}

/// Makes the socket send bytes at once, and returns the socket. By default, a second send would wait for the
/// acknowledgement of the first send. The kernel delays acknowledgements by 40 ms.
int without_delay(int socket) {
  const int on = 1;
  (void)setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return socket;
}

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  place.sin_port = htons(port);
  return place;
}

}  // namespace

tcp_store::tcp_store(rank ranks) : ranks_(ranks), listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in place = loopback(0);
  socklen_t bytes = sizeof place;
  auto* const address = reinterpret_cast<sockaddr*>(&place);
  if (bind(listener_, address, bytes) != 0 || listen(listener_, ranks) != 0) return;
  if (getsockname(listener_, address, &bytes) != 0) return;
  port_ = ntohs(place.sin_port);
  server_ = std::thread([this] { serve(listener_); });
}

tcp_store::~tcp_store() {
  shutdown(listener_, SHUT_RDWR);
  if (server_.joinable()) server_.join();
  close(listener_);
}

// Accepts one connection from each rank. In each exchange, receives one message from each rank, and sends all messages
// to every rank. If a connection fails, closes all connections.
void tcp_store::serve(int listener) const {
  std::vector<int> of_ranks(static_cast<std::size_t>(ranks_), -1);
  for (rank known = 0; known < ranks_; ++known) {
    const int one = without_delay(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    std::int32_t self = -1;
    if (one < 0 || !receive_all(one, &self, sizeof self)) break;
    of_ranks[static_cast<std::size_t>(self)] = one;
  }
  for (bool goes_on = true; goes_on;) {
    std::vector<std::byte> all;
    for (const int one : of_ranks) {
      std::uint64_t bytes = 0;
      goes_on = goes_on && one >= 0 && receive_all(one, &bytes, sizeof bytes);
      if (!goes_on) break;
      all.resize(all.size() + bytes);
      goes_on = receive_all(one, all.data() + all.size() - bytes, bytes);
    }
    for (const int one : of_ranks) goes_on = goes_on && send_all(one, all.data(), all.size());
  }
  for (const int one : of_ranks)
    if (one >= 0) close(one);
}

tcp_store::client::client(const tcp_store& of, rank self)
    : ranks_(of.ranks_), socket_(without_delay(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))) {
  const sockaddr_in place = loopback(of.port_);
  if (connect(socket_, reinterpret_cast<const sockaddr*>(&place), sizeof place) == 0)
    (void)send_all(socket_, &self, sizeof self);
}

tcp_store::client::~client() { close(socket_); }

int tcp_store::client::exchange(const void* mine, void* all, std::uint64_t bytes) {
  if (!send_all(socket_, &bytes, sizeof bytes) || !send_all(socket_, mine, bytes)) return 1;
  return receive_all(socket_, all, bytes * static_cast<std::uint64_t>(ranks_)) ? 0 : 2;
}

}  // namespace lsched::testing
