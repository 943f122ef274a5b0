// Connected sockets between ranks of one process, for the tests of the transport net.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "libsched/transport/net/net_address.h"
#include "libsched/transport/net/net_endpoint.h"
#include "libsched/transport/net/wire_up.h"

namespace lsched::testing {

/// Throws if a call of the operating system has failed.
inline int checked(int result, const char* what) {
  if (result < 0) throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
  return result;
}

/// Returns true if the loopback interface has an IPv6 address. Many containers lack IPv6.
inline bool has_ipv6() { return !addresses_of_host({.names = {"lo"}, .family = 6}, 1).empty(); }

/// Returns the two ends of a connection over the loopback interface. `family` is AF_INET or AF_INET6.
inline std::pair<descriptor, descriptor> connected_pair(int family) {
  sockaddr_storage where{};
  socklen_t bytes = 0;
  if (family == AF_INET) {
    auto& v4 = reinterpret_cast<sockaddr_in&>(where);
    v4.sin_family = AF_INET;
    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bytes = sizeof v4;
  } else {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(where);
    v6.sin6_family = AF_INET6;
    v6.sin6_addr = in6addr_loopback;
    bytes = sizeof v6;
  }
  auto* const address = reinterpret_cast<sockaddr*>(&where);
  const descriptor listener(checked(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket"));
  checked(bind(listener.get(), address, bytes), "bind");
  checked(listen(listener.get(), 1), "listen");
  checked(getsockname(listener.get(), address, &bytes), "getsockname");
  descriptor here(checked(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket"));
  checked(connect(here.get(), address, bytes), "connect");
  descriptor there(checked(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC), "accept4"));
  checked(fcntl(here.get(), F_SETFL, O_NONBLOCK), "fcntl");
  for (const descriptor* one : {&here, &there}) {
    const int on = 1;
    checked(setsockopt(one->get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), "setsockopt");
  }
  return {std::move(here), std::move(there)};
}

/// Returns whether the system has OpenSSL 3.
inline bool has_tls() { return static_cast<bool>(tls_library::load()); }

/// Makes both ends of a connection use TLS, and completes the TLS handshake.
inline void encrypt_both(stream_socket& one, stream_socket& other) {
  const tls_library& library = **tls_library::load();
  if (!one.encrypt(library, true, {}) || !other.encrypt(library, false, {})) throw std::runtime_error("encrypt");
  char sent = 'x', taken = 0;
  const iovec out{&sent, 1}, in{&taken, 1};
  ssize_t moved[2]{-1, -1};
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while ((moved[0] != 1 || moved[1] != 1) && std::chrono::steady_clock::now() < deadline) {
    if (moved[0] != 1) moved[0] = one.write({&out, 1});
    if (moved[1] != 1) moved[1] = other.read({&in, 1});
  }
  if (taken != sent) throw std::runtime_error("TLS");
}

/// Returns an address at which no process listens, so that a rank counts as ended when its connection ends.
inline net_address deserted_address() {
  static const descriptor bound(checked(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket"));
  static const net_address address = [] {
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    checked(bind(bound.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where), "bind");
    return own_end(bound.get());
  }();
  return address;
}

/// Returns the sockets of all ranks, indexed by rank and then by peer.
inline std::vector<std::vector<net_sockets>> connect_all(rank ranks, int family, bool is_encrypted = false) {
  const auto count = static_cast<std::size_t>(ranks);
  std::vector<std::vector<net_sockets>> all(count);
  for (auto& of : all) of.resize(count);
  for (std::size_t a = 0; a < count; ++a)
    for (std::size_t b = a + 1; b < count; ++b) {
      std::tie(all[a][b].control, all[b][a].control) = connected_pair(family);
      std::tie(all[a][b].bulk, all[b][a].bulk) = connected_pair(family);
      all[a][b].listens_at = all[b][a].listens_at = deserted_address();
      if (!is_encrypted) continue;
      encrypt_both(all[a][b].control, all[b][a].control);
      encrypt_both(all[a][b].bulk, all[b][a].bulk);
    }
  return all;
}

/// The ranks of a job as threads, each with a listener on the loopback interface.
struct job_in_threads {
  explicit job_in_threads(rank ranks, std::uint8_t family = 4) : size(ranks) {
    if (!draw_secret(job.secret)) std::abort();
    for (rank r = 0; r < ranks; ++r) {
      auto opened = net_listener::open({.names = {"lo"}, .family = family});
      if (!opened) std::abort();
      addresses.push_back(opened->addresses());
      listeners.push_back(std::move(*opened));
    }
  }

  /// Wires up the ranks for which `joins` returns true. Returns their results, indexed by rank.
  template <class Joins>
  std::vector<std::optional<result<std::vector<net_sockets>>>> run(const net_limits& limits, Joins joins) {
    std::vector<std::optional<result<std::vector<net_sockets>>>> made(static_cast<std::size_t>(size));
    std::vector<std::thread> threads;
    for (rank r = 0; r < size; ++r) {
      if (!joins(r)) continue;
      threads.emplace_back([&, r] {
        const auto at = static_cast<std::size_t>(r);
        made[at] = wire_up({r, size}, listeners[at], job, addresses, limits);
      });
    }
    for (std::thread& one : threads) one.join();
    return made;
  }

  rank size;
  net_job job;
  std::vector<net_listener> listeners;
  std::vector<std::vector<net_address>> addresses;
};

}  // namespace lsched::testing
