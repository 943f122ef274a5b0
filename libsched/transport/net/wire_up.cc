#include "libsched/transport/net/wire_up.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <list>
#include <memory>
#include <string>

namespace lsched {
namespace {

using clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr std::uint32_t k_sockets = 2;       // control and bulk
constexpr std::size_t k_most_attempts = 64;  // maximum number of concurrent attempts of one rank
constexpr int k_most_ahead = 32 << 10;       // maximum number of unsent bytes in the kernel, for a control socket

/// Returns whether the last system call has failed because the process, or the system, has no descriptor left.
bool lacks_descriptors() { return errno == EMFILE || errno == ENFILE; }

failure no_descriptors(rank ranks) {
  rlimit limit{};
  (void)getrlimit(RLIMIT_NOFILE, &limit);
  return {status::no_memory, "no file descriptor is left: a rank needs " + std::to_string(2 * (ranks - 1)) +
                                 " for the connections to " + std::to_string(ranks - 1) +
                                 " ranks, and the process may have " + std::to_string(limit.rlim_cur) +
                                 ". Raise the hard limit (ulimit -Hn)"};
}

/// Sets the options of a connection. The kernel probes an idle connection each second. The endpoint reads the length of
/// a silence (net_endpoint_peers.cc, silence_of()). The kernel itself does not end the connection. So if a network
/// partition heals, each side can inform the other side that it has continued alone. TCP_USER_TIMEOUT is not set,
/// because this timeout would also run while a rank reads nothing, for example because it computes or is stopped.
void prepare(int socket, std::uint32_t which) {
  constexpr int k_most_probes = 127;
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  if (which == 0) set_option(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, k_most_ahead);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  for (const int option : {TCP_KEEPIDLE, TCP_KEEPINTVL}) set_option(socket, IPPROTO_TCP, option, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, k_most_probes);
}

/// An attempt to connect a socket of this rank to a peer.
class attempt {
 public:
  attempt(const world& place, rank peer, std::uint32_t which, std::vector<net_address> addresses, const net_job& job,
          const net_limits& limits)
      : place_(place),
        peer_(peer),
        which_(which),
        addresses_(std::move(addresses)),
        job_(job),
        limits_(limits),
        reasons_(addresses_.size(), "no answer yet") {}

  rank peer() const { return peer_; }
  std::uint32_t which() const { return which_; }
  /// Returns a text with each address and the reason why the last attempt at this address has failed, such as
  /// "10.0.0.1:4242: no answer".
  std::string reasons() const {
    std::string text;
    for (std::size_t k = 0; k < addresses_.size(); ++k)
      text += (text.empty() ? "" : "; ") + addresses_[k].text() + ": " + reasons_[k];
    return text;
  }
  bool has_no_descriptor() const { return has_no_descriptor_; }
  int socket() const { return shake_ != nullptr ? shake_->socket() : connecting_.get(); }
  short events() const { return shake_ != nullptr && !shake_->waits_for_room() ? POLLIN : POLLOUT; }

  /// Advances without waiting. Returns true if the connection is proven.
  bool advance() {
    const auto now = clock::now();
    if (socket() < 0) {
      if (now < next_at_) return false;
      begin(now);
    }
    if (shake_ == nullptr && connecting_ && is_connected()) {
      prepare(connecting_.get(), which_);
      shake_ =
          std::make_unique<handshake>(handshake::to_listener(std::move(connecting_), job_, place_.self, peer_, which_));
    }
    if (shake_ != nullptr) {
      const handshake::state how = shake_->advance();
      if (how == handshake::state::proven) return true;
      if (how == handshake::state::refused) give_up("another program, or another job, listens there");
    }
    const bool has_answer = shake_ != nullptr && shake_->has_answer();
    if (socket() >= 0 && now > began_ + (has_answer ? limits_.wire_up / 2 : limits_.attempt)) give_up("no answer");
    return false;
  }
  stream_socket take_connection() { return shake_->take_connection(); }

 private:
  const net_address& address() const { return addresses_[turn_ % addresses_.size()]; }

  void begin(clock::time_point now) {
    began_ = now;
    connecting_ = new_socket(address());
    has_no_descriptor_ = !connecting_ && lacks_descriptors();
    if (!connecting_ || !begin_connection(connecting_.get(), address())) give_up(strerror(errno));
  }

  bool is_connected() {
    pollfd ready{connecting_.get(), POLLOUT, 0};
    if (::poll(&ready, 1, 0) != 1) return false;
    int error = 0;
    socklen_t length = sizeof error;
    (void)getsockopt(connecting_.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) give_up(strerror(error));
    return error == 0;
  }

  /// Ends the attempt at this address. After the last address, pauses before the first address is tried again.
  void give_up(const std::string& why) {
    reasons_[turn_ % addresses_.size()] = why;
    connecting_.reset();
    shake_.reset();
    next_at_ = clock::now() + (++turn_ % addresses_.size() == 0 ? 50ms : 0ms);
  }

  const world place_;
  const rank peer_;
  const std::uint32_t which_;
  const std::vector<net_address> addresses_;
  const net_job& job_;
  const net_limits& limits_;
  std::size_t turn_ = 0;
  clock::time_point began_{}, next_at_{};
  descriptor connecting_;
  std::unique_ptr<handshake> shake_;
  std::vector<std::string> reasons_;  ///< by address
  bool has_no_descriptor_ = false;
};

/// Replaces the scopes of link-local addresses. Such a scope must be the index of an interface of the connecting host.
void use_own_scopes(std::vector<net_address>& theirs, const std::vector<net_address>& own) {
  const auto mine = std::ranges::find_if(own, [](const net_address& one) { return one.scope != 0; });
  for (net_address& one : theirs)
    if (one.scope != 0 && mine != own.end()) one.scope = mine->scope;
}

constexpr const char* k_advice =
    "Let firewalls pass these ports (LSCHED_NET_PORTS chooses them), or choose interfaces that connect the hosts "
    "(LSCHED_NET_INTERFACES)";

std::string texts_of(const std::vector<net_address>& addresses) {
  std::string text;
  for (const net_address& each : addresses) text += (text.empty() ? "" : ", ") + each.text();
  return text;
}

/// An accepted connection whose peer is not proven yet.
struct guest {
  handshake shake;
  clock::time_point since;
};

class connector {
 public:
  connector(const world& place, const net_listener& listener, const net_job& job,
            const std::vector<std::vector<net_address>>& addresses, const net_limits& limits)
      : place_(place),
        listener_(listener),
        job_(job),
        addresses_(addresses),
        limits_(limits),
        made_(static_cast<std::size_t>(place.size)) {
    for (rank peer = 0; peer < place.self; ++peer) {
      std::vector<net_address> theirs = addresses[static_cast<std::size_t>(peer)];
      sort_by_nearness(theirs, listener.addresses());
      use_own_scopes(theirs, listener.addresses());
      for (std::uint32_t which = 0; which < k_sockets; ++which)
        attempts_.emplace_back(place, peer, which, theirs, job, limits_);
    }
  }

  result<std::vector<net_sockets>> run() {
    const auto deadline = clock::now() + limits_.wire_up;
    for (;;) {
      advance();
      if (is_complete()) return take();
      if (is_out_of_descriptors_) return no_descriptors(place_.size);
      if (clock::now() >= deadline) return missing();
      wait();
    }
  }

 private:
  stream_socket& place_of(rank peer, std::uint32_t which) {
    net_sockets& of = made_[static_cast<std::size_t>(peer)];
    return which == 0 ? of.control : of.bulk;
  }

  void advance() {
    std::size_t tried = 0;
    std::erase_if(attempts_, [&](attempt& one) {
      if (tried++ >= k_most_attempts) return false;
      const bool is_proven = one.advance();
      is_out_of_descriptors_ = is_out_of_descriptors_ || one.has_no_descriptor();
      if (!is_proven) return false;
      place_of(one.peer(), one.which()) = one.take_connection();
      return true;
    });
    accept_guests();
    const auto now = clock::now();
    std::erase_if(guests_, [&](guest& one) {
      const handshake::state how = one.shake.advance();
      if (how == handshake::state::proven) admit(one.shake);
      return how != handshake::state::pending || now > one.since + limits_.handshake;
    });
  }

  // guests_ has room for all awaited connections, and for some connections of strangers. Without room, new connections
  // wait in the kernel. The oldest unproven connection is closed only if another connection waits, and only after its
  // peer has had time for a proof.
  void accept_guests() {
    for (const descriptor& listening : listener_.sockets())
      for (;;) {
        if (is_full() && clock::now() < guests_.front().since + limits_.least_proof) return;
        descriptor accepted =
            make_descriptor([&] { return ::accept4(listening.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC); });
        if (!accepted) {
          is_out_of_descriptors_ = is_out_of_descriptors_ || lacks_descriptors();
          break;
        }
        if (is_full()) guests_.pop_front();
        guests_.push_back({handshake::to_connector(std::move(accepted), job_, place_.self, place_.size), clock::now()});
      }
  }
  bool is_full() const { return guests_.size() >= limits_.most_strangers + awaited_; }

  // A peer connects again if the last message of a handshake is lost. So the newest connection counts.
  void admit(handshake& of) {
    stream_socket& place = place_of(of.peer(), of.which());
    if (of.peer() < place_.self) return;
    if (!place) --awaited_;
    place = of.take_connection();
    prepare(place.get(), of.which());
  }

  bool is_complete() const {
    for (rank peer = 0; peer < place_.size; ++peer) {
      const net_sockets& of = made_[static_cast<std::size_t>(peer)];
      if (peer != place_.self && (!of.control || !of.bulk)) return false;
    }
    return true;
  }

  std::vector<net_sockets> take() {
    for (rank peer = 0; peer < place_.size; ++peer)
      if (net_sockets& of = made_[static_cast<std::size_t>(peer)]; of.control)
        of.listens_at = listening_address(of.control, peer);
    return std::move(made_);
  }

  /// Returns the address at which a peer listens on the host at the other end of `connected`. Returns an address of
  /// family 0 if the port is unknown. The peer's other addresses are not used, because they may also exist on other
  /// hosts.
  net_address listening_address(const stream_socket& connected, rank peer) const {
    net_address end = peer_end(connected.get());
    if (peer < place_.self) return end;  // this rank has connected to the listening socket
    const auto is_there = [&](const net_address& one) { return one.family == end.family && one.bytes == end.bytes; };
    const std::vector<net_address>& theirs = addresses_[static_cast<std::size_t>(peer)];
    if (std::ranges::count_if(theirs, is_there) != 1) return {};
    end.port = std::ranges::find_if(theirs, is_there)->port;
    return end;
  }

  failure missing() const {
    if (!attempts_.empty()) {
      const attempt& one = attempts_.front();
      return {status::timeout,
              "rank " + std::to_string(one.peer()) + " could not be reached (" + one.reasons() + "). " + k_advice,
              one.peer()};
    }
    rank peer = place_.self + 1;
    while (made_[static_cast<std::size_t>(peer)].control && made_[static_cast<std::size_t>(peer)].bulk) ++peer;
    return {status::timeout,
            "rank " + std::to_string(peer) + " did not connect to this rank in time (" +
                texts_of(listener_.addresses()) + "). Check whether that rank has started. " + k_advice,
            peer};
  }

  void wait() const {
    std::vector<pollfd> all;
    for (const attempt& one : attempts_)
      if (one.socket() >= 0) all.push_back({one.socket(), one.events(), 0});
    for (const guest& one : guests_)
      all.push_back({one.shake.socket(), static_cast<short>(one.shake.waits_for_room() ? POLLOUT : POLLIN), 0});
    for (const descriptor& one : listener_.sockets())
      if (!is_full()) all.push_back({one.get(), POLLIN, 0});
    (void)::poll(all.data(), all.size(), 20);
  }

  const world place_;
  const net_listener& listener_;
  const net_job& job_;
  const std::vector<std::vector<net_address>>& addresses_;
  const net_limits& limits_;
  std::vector<net_sockets> made_;
  std::list<attempt> attempts_;
  std::list<guest> guests_;
  std::size_t awaited_ = k_sockets * static_cast<std::size_t>(place_.size - 1 - place_.self);
  bool is_out_of_descriptors_ = false;
};

/// Binds and listens. Returns an empty descriptor, and sets errno, if that fails.
descriptor listen_at(net_address& where, std::uint16_t port) {
  descriptor made = new_socket(where);
  if (!made) return {};
  where.port = port;
  set_option(made.get(), SOL_SOCKET, SO_REUSEADDR, 1);  // the ports of an earlier job may still be in TIME_WAIT
  if (where.family == 6) set_option(made.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
  socklen_t length = 0;
  sockaddr_storage address = where.to_system(&length);
  auto* const system = reinterpret_cast<sockaddr*>(&address);
  if (::bind(made.get(), system, length) != 0 || ::listen(made.get(), 1024) != 0 || own_end(made.get()).family == 0)
    return {};
  where.port = own_end(made.get()).port;
  return made;
}

}  // namespace

result<net_listener> net_listener::open(const net_interfaces& chosen) {
  net_listener made;
  std::vector<net_address> wanted = addresses_of_host(chosen, k_most_addresses);
  if (wanted.empty()) {
    const std::string family = chosen.family == 0 ? "" : "LSCHED_NET_FAMILY=" + std::to_string(chosen.family);
    std::string names;
    for (const std::string& each : chosen.names) names += (names.empty() ? "LSCHED_NET_INTERFACES=" : ",") + each;
    const std::string both = names + (names.empty() || family.empty() ? "" : " and ") + family;
    return failure{status::unsupported, "no network interface is up" + (both.empty() ? "" : " that fits " + both) +
                                            ". The interfaces that are up: " + interfaces_of_host()};
  }
  int error = 0;
  for (net_address& where : wanted) {
    descriptor socket;
    for (std::uint32_t port = chosen.first_port; port <= chosen.last_port && !socket; ++port) {
      socket = listen_at(where, static_cast<std::uint16_t>(port));
      if (!socket) error = errno;
    }
    if (!socket) continue;
    made.addresses_.push_back(where);
    made.sockets_.push_back(std::move(socket));
  }
  if (made.sockets_.empty() && (error == EMFILE || error == ENFILE))
    return failure{status::no_memory, "no file descriptor is left for a listening socket: raise the limit (ulimit -n)"};
  if (made.sockets_.empty())
    return failure{status::unsupported, "cannot listen at " + wanted.front().text() + ": " + strerror(error) +
                                            ". Choose other ports (LSCHED_NET_PORTS)"};
  return made;
}

result<std::vector<net_sockets>> wire_up(const world& place, const net_listener& listener, const net_job& job,
                                         const std::vector<std::vector<net_address>>& addresses,
                                         const net_limits& limits) {
  for (rank peer = 0; peer < place.self; ++peer)
    if (addresses[static_cast<std::size_t>(peer)].empty())
      return failure{status::unsupported, "rank " + std::to_string(peer) + " has no network address", peer};
  return connector(place, listener, job, addresses, limits).run();
}

}  // namespace lsched
