#include "offload/open/door.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <exception>
#include <list>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "libsched/transport/net/fork_guard.h"
#include "libsched/transport/net/wire_up.h"
#include "libsched/transport/quiet_thread.h"
#include "offload/open/launch_exchange.h"
#include "offload/open/world_exchange.h"

namespace lsched {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr std::string_view k_form = "lsched-door-1:";
constexpr rank k_most_invited = 1 << 16;
constexpr auto k_gathering = 20ms;  ///< the first new rank waits so long for further new ranks
constexpr auto k_accept_pause = 200ms;
constexpr rank k_door = 0, k_visitor = 1;  ///< the ranks of the two ends in the handshake

/// A knock is an exchange_request with the limit k_knock, and a rank in its record.
constexpr std::uint32_t k_knock = 0;

struct invitation {
  rank self, size;
};

std::string hex_of(std::span<const std::byte> bytes) {
  std::string text;
  constexpr std::string_view k_digits = "0123456789abcdef";
  for (const std::byte one : bytes) {
    text += k_digits[std::to_integer<std::size_t>(one >> 4)];
    text += k_digits[std::to_integer<std::size_t>(one & std::byte{15})];
  }
  return text;
}

bool read_hex(std::string_view text, std::span<std::byte> into) {
  if (text.size() != 2 * into.size()) return false;
  for (std::size_t i = 0; i < into.size(); ++i) {
    unsigned value = 0;
    const char* const first = text.data() + 2 * i;
    const auto [end, error] = std::from_chars(first, first + 2, value, 16);
    if (error != std::errc{} || end != first + 2) return false;
    into[i] = static_cast<std::byte>(value);
  }
  return true;
}

/// Sets the options of a connection, so that the death of the other host ends the connection after five seconds.
void prepare(int socket) {
  constexpr int k_most_probes = 5;
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  for (const int option : {TCP_KEEPIDLE, TCP_KEEPINTVL}) set_option(socket, IPPROTO_TCP, option, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, k_most_probes);
}

/// A proven connection.
struct visitor {
  stream_socket connection;
  rank member = k_no_rank;  ///< rank in the world of the door; k_no_rank: a new rank, or a visitor without a knock
  bool has_knocked = false;
  rank invited_as = k_no_rank;  ///< rank in the attempt
  std::string received{};       ///< the first bytes of the next exchange_request
  std::string unsent{};         ///< bytes that the socket did not accept yet
};

class open_door final : public door {
 public:
  open_door(net_listener listener, rank members, const net_job& job, const door_key& key, descriptor stop)
      : listener_(std::move(listener)),
        members_(members),
        job_(job),
        key_(key),
        stop_(std::move(stop)),
        thread_(start_quietly("lsched-door", [this] { run(); })) {}
  /// The thread does not exist in a forked child, whose parent uses the same event.
  ~open_door() override {
    if (getpid() == process_) eventfd_write(stop_.get(), 1);
    thread_.join();
    for (const descriptor& one : listener_.sockets()) guard_.remove(one.get());
    for (visitor& one : visitors_) disconnect(one);
  }

  const door_key& key() const override { return key_; }

 private:
  struct guest {
    handshake shake;
    clock::time_point since;
  };

  /// After an error of the system, closes all connections. No visitor can enter any more.
  void run() {
    try {
      for (const descriptor& one : listener_.sockets()) guard_.add(one.get());
      while (wait()) serve();
    } catch (const std::exception&) {
      guests_.clear();
      for (visitor& one : visitors_) disconnect(one);
    }
  }

  void serve() {
    if (clock::now() >= accepts_again_) accept_guests();
    prove_guests();
    for (visitor& one : visitors_)
      if (send_unsent(one); one.connection) read(one);
    answer();
    std::erase_if(visitors_, [](const visitor& one) { return !one.connection; });
    invite();
  }

  /// Waits for an event. Returns false if the door closes.
  bool wait() {
    std::vector<pollfd> all{{stop_.get(), POLLIN, 0}};
    auto until = clock::time_point::max();
    const auto wake_at = [&](clock::time_point time) { until = std::min(until, time); };
    const bool accepts = guests_.size() < net_limits{}.most_strangers && clock::now() >= accepts_again_;
    for (const descriptor& one : listener_.sockets())
      if (accepts) all.push_back({one.get(), POLLIN, 0});
    if (!accepts) wake_at(clock::now() + k_accept_pause);
    for (const guest& one : guests_)
      all.push_back({one.shake.socket(), one.shake.waits_for_room() ? short{POLLOUT} : short{POLLIN}, 0});
    if (!guests_.empty()) wake_at(clock::now() + k_accept_pause);
    for (const visitor& one : visitors_)
      all.push_back({one.connection.get(), one.unsent.empty() ? short{POLLIN} : short{POLLIN | POLLOUT}, 0});
    if (const auto limit = attempt_ ? attempt_->deadline() : std::nullopt) wake_at(*limit);
    if (gathers_until_) wake_at(*gathers_until_);
    const auto left = until == clock::time_point::max()
                          ? -1ms
                          : std::max(0ms, std::chrono::ceil<std::chrono::milliseconds>(until - clock::now()));
    (void)poll(all.data(), all.size(), static_cast<int>(left.count()));
    return all.front().revents == 0;
  }

  void accept_guests() {
    for (const descriptor& listening : listener_.sockets())
      while (guests_.size() < net_limits{}.most_strangers) {
        descriptor accepted =
            make_descriptor([&] { return ::accept4(listening.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC); });
        if (!accepted && errno != EAGAIN) accepts_again_ = clock::now() + k_accept_pause;
        if (!accepted) break;
        prepare(accepted.get());
        guests_.push_back({handshake::to_connector(std::move(accepted), job_, k_door, 2), clock::now()});
      }
  }

  void prove_guests() {
    std::erase_if(guests_, [this](guest& one) {
      const handshake::state how = one.shake.advance();
      if (how == handshake::state::proven) {
        visitors_.push_back({one.shake.take_connection()});
        guard_.add(visitors_.back().connection.get());
      }
      return how != handshake::state::pending || clock::now() > one.since + net_limits{}.handshake;
    });
  }

  /// Reads the next requests of a visitor. Closes the connection after its end, or after an invalid request.
  void read(visitor& one) {
    for (;;) {
      std::array<char, sizeof(exchange_request)> bytes;
      const iovec room{bytes.data(), sizeof(exchange_request) - one.received.size()};
      const ssize_t count = one.connection.read({&room, 1});
      if (count < 0 && state_of_error() == socket_state::blocked) return;
      if (count <= 0) return close(one);
      one.received.append(bytes.data(), static_cast<std::size_t>(count));
      if (one.received.size() < sizeof(exchange_request)) continue;
      if (!take(one, std::exchange(one.received, {}))) return close(one);
    }
  }

  bool take(visitor& one, const std::string& request) {
    exchange_request read{};
    std::memcpy(&read, request.data(), sizeof read);
    if (read.limit_ms != k_knock) {
      if (one.invited_as == k_no_rank) return false;
      return attempt_->add(one.invited_as, request);
    }
    if (one.has_knocked) return false;
    std::memcpy(&one.member, read.record.data(), sizeof one.member);
    one.has_knocked = true;
    return one.member >= k_no_rank && one.member < members_;
  }

  void disconnect(visitor& one) {
    if (!one.connection) return;
    guard_.remove(one.connection.get());
    one.connection.reset();
  }

  void close(visitor& one) {
    disconnect(one);
    if (one.invited_as != k_no_rank) attempt_->record_end_of(one.invited_as);
  }

  /// Sends the result of the exchange to the ranks of the attempt, if the exchange is complete or has failed. After a
  /// failure, a rank that has sent no request receives this result after its next request, and ends its attempt, too.
  void answer() {
    if (!attempt_) return;
    const auto text = attempt_->take_answer();
    for (visitor& one : visitors_)
      if (text && one.invited_as != k_no_rank && one.connection) write(one, *text);
  }

  void write(visitor& one, std::string_view bytes) {
    one.unsent += bytes;
    send_unsent(one);
  }

  void send_unsent(visitor& one) {
    if (one.unsent.empty()) return;
    const iovec all{one.unsent.data(), one.unsent.size()};
    const ssize_t count = one.connection.write({&all, 1});
    if (count > 0) one.unsent.erase(0, static_cast<std::size_t>(count));
    if (count < 0 && state_of_error() != socket_state::blocked) close(one);
  }

  static bool waits(const visitor& one) { return one.connection && one.has_knocked && one.invited_as == k_no_rank; }

  /// Returns the ranks of the next attempt in their order, or nothing if a member or every new rank is absent.
  std::vector<visitor*> find_invited() {
    std::vector<visitor*> invited(static_cast<std::size_t>(members_));
    for (visitor& one : visitors_)
      if (waits(one) && one.member != k_no_rank) invited[static_cast<std::size_t>(one.member)] = &one;
    if (std::ranges::find(invited, nullptr) != invited.end()) return {};
    for (visitor& one : visitors_)
      if (waits(one) && one.member == k_no_rank && static_cast<rank>(invited.size()) < k_most_invited)
        invited.push_back(&one);
    if (static_cast<rank>(invited.size()) == members_) return {};
    return invited;
  }

  /// Begins an attempt if all members and at least one new rank have knocked. Visitors of an earlier attempt are closed
  /// then, because no member takes part in that attempt any more.
  void invite() {
    const std::vector<visitor*> invited = find_invited();
    if (invited.empty()) return gathers_until_.reset();
    if (!gathers_until_) gathers_until_ = clock::now() + k_gathering;
    if (clock::now() < *gathers_until_) return;
    gathers_until_.reset();
    for (visitor& one : visitors_)
      if (one.invited_as != k_no_rank) disconnect(one), one.invited_as = k_no_rank;
    attempt_.emplace(static_cast<rank>(invited.size()));
    for (std::size_t i = 0; i < invited.size(); ++i) invited[i]->invited_as = static_cast<rank>(i);
    for (visitor* const one : invited) {
      const invitation text{one->invited_as, static_cast<rank>(invited.size())};
      write(*one, {reinterpret_cast<const char*>(&text), sizeof text});
    }
    std::erase_if(visitors_, [](const visitor& one) { return !one.connection; });
  }

  const pid_t process_ = getpid();
  const net_listener listener_;
  const rank members_;
  const net_job job_;
  const door_key key_;
  const descriptor stop_;
  std::list<guest> guests_;
  std::list<visitor> visitors_;
  std::optional<world_exchange> attempt_;
  std::optional<clock::time_point> gathers_until_;  ///< time at which the next attempt may begin
  clock::time_point accepts_again_{};               ///< after a failed accept
  fork_guard guard_;
  std::thread thread_;  ///< last member, because the thread uses the other members
};

}  // namespace

std::string door_key::text() const {
  std::string all = std::string(k_form) + hex_of(std::as_bytes(std::span(secret)));
  for (std::size_t i = 0; i < count; ++i) all += ':' + hex_of(std::as_bytes(std::span(&addresses[i], 1)));
  return all;
}

result<door_key> read_door_key(std::string_view text) {
  const failure invalid{status::argument,
                        "the text does not name a growing world: pass the whole text of lsched_grow_text"};
  if (!text.starts_with(k_form) || text.ends_with(':')) return invalid;
  text.remove_prefix(k_form.size());
  door_key key;
  for (bool is_secret = true; !text.empty(); is_secret = false) {
    const std::string_view word = text.substr(0, text.find(':'));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (!is_secret && key.count == key.addresses.size()) return invalid;
    const auto into = is_secret ? std::as_writable_bytes(std::span(key.secret))
                                : std::as_writable_bytes(std::span(&key.addresses[key.count++], 1));
    if (!read_hex(word, into)) return invalid;
  }
  return key.count == 0 ? result<door_key>(invalid) : key;
}

result<std::unique_ptr<door>> door::open(const net_interfaces& chosen, rank members, std::uint64_t build) {
  auto listener = net_listener::open(chosen);
  if (!listener) return listener.error();
  door_key key;
  if (!draw_secret(key.secret)) return failure{status::unsupported, "getrandom has failed"};
  key.count = static_cast<std::uint32_t>(std::min(listener->addresses().size(), key.addresses.size()));
  std::copy_n(listener->addresses().begin(), key.count, key.addresses.begin());
  descriptor stop = make_descriptor([] { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); });
  if (!stop) return failure{status::no_memory, "the process has no file descriptor left"};
  const net_job job{.secret = key.secret, .build = build};
  return std::unique_ptr<door>(std::make_unique<open_door>(std::move(*listener), members, job, key, std::move(stop)));
}

// --- visits ----------------------------------------------------------------------------------------------------------

namespace {

/// Waits until the socket is ready for one of `events`. Returns false after the deadline, or if `stop` is readable.
bool is_ready(int socket, short events, clock::time_point deadline, int stop) {
  for (;;) {
    std::array<pollfd, 2> waits{{{socket, events, 0}, {stop, POLLIN, 0}}};
    const auto left = std::max(0ms, std::chrono::ceil<std::chrono::milliseconds>(deadline - clock::now()));
    const int count = poll(waits.data(), waits.size(), static_cast<int>(std::min(left, 10'000ms).count()));
    if (count > 0) return waits[1].revents == 0;
    if (count == 0 && left <= 10'000ms) return false;
  }
}

/// Connects to one address, and proves this process. Returns an empty socket, and sets *why, if the attempt has failed.
stream_socket connect_to(const net_address& address, const net_job& job, clock::time_point deadline, int stop,
                         std::string* why) {
  *why = "no answer";
  descriptor made = new_socket(address);
  if (!made || !begin_connection(made.get(), address)) return *why = strerror(errno), stream_socket();
  if (!is_ready(made.get(), POLLOUT, deadline, stop)) return {};
  int error = 0;
  socklen_t length = sizeof error;
  (void)getsockopt(made.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) return *why = strerror(error), stream_socket();
  prepare(made.get());
  handshake shake = handshake::to_listener(std::move(made), job, k_visitor, k_door, 0);
  for (;;) {
    const handshake::state how = shake.advance();
    if (how == handshake::state::proven) return shake.take_connection();
    if (how == handshake::state::refused)
      return *why = "another program, or another build, listens there", stream_socket();
    if (!is_ready(shake.socket(), shake.waits_for_room() ? POLLOUT : POLLIN, deadline, stop)) return {};
  }
}

}  // namespace

result<visit> visit::connect(const door_key& key, std::uint64_t build, rank member, clock::time_point deadline,
                             int stop) {
  const net_job job{.secret = key.secret, .build = build};
  std::string reasons;
  for (std::size_t i = 0; i < key.count; ++i) {
    std::string why;
    stream_socket made = connect_to(key.addresses[i], job, std::min(deadline, clock::now() + 1s), stop, &why);
    reasons += (reasons.empty() ? "" : "; ") + key.addresses[i].text() + ": " + why;
    if (!made) continue;
    visit opened(std::move(made), stop);
    exchange_request knock{k_knock, {}};
    std::memcpy(knock.record.data(), &member, sizeof member);
    if (auto unsent = opened.socket().send(&knock, sizeof knock, deadline)) return *unsent;
    return opened;
  }
  return failure{status::timeout, "the growing world cannot be reached: " + reasons +
                                      ". Check that its rank 0 lives, and that the text is its latest"};
}

timed_socket visit::socket() const {
  return {connection_.get(),
          {status::peer, "rank 0 of the growing world has closed its door"},
          {status::timeout, "the growing world has not invited this process in time: its ranks must call lsched_grow"},
          stop_};
}

result<world> visit::await_invitation(clock::time_point deadline) const {
  invitation text{};
  if (auto why = socket().receive(&text, sizeof text, deadline)) return *why;
  if (text.self < 0 || text.self >= text.size || text.size > k_most_invited)
    return failure{status::transport, "the door has sent an invalid invitation"};
  return world{text.self, text.size};
}

exchange_function visit::exchange(const world& invited, std::chrono::nanoseconds limit) const {
  return exchange_over(socket(), invited.size, {status::internal, "the door has answered for another number of ranks"},
                       limit, limit);
}

}  // namespace lsched
