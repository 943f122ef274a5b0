#include "libsched/transport/net/net_endpoint.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <thread>
#include <utility>

namespace lsched {
namespace {

using clock = std::chrono::steady_clock;

/// New values for a peer are put into the control stream only while the stream has at most this number of unwritten
/// bytes. Otherwise the values wait, and a newer value replaces an older value.
constexpr std::size_t k_most_unwritten = std::size_t{64} << 10;
/// Largest number of bytes that this rank writes to, or reads from, the bulk socket of a peer in one turn. Turns of
/// writing and reading alternate, so that both directions of the link are busy.
constexpr std::uint64_t k_turn_bytes = std::uint64_t{64} << 10;

/// Returns the number of bytes that the kernel holds because the peer's kernel has not confirmed them.
int unconfirmed(int socket) {
  int bytes = 0;
  return ioctl(socket, TIOCOUTQ, &bytes) == 0 ? bytes : 0;
}

/// Confirms the bytes that have arrived. Otherwise the kernel may delay the confirmation by 40 ms.
void confirm(int socket) { set_option(socket, IPPROTO_TCP, TCP_QUICKACK, 1); }

}  // namespace

// --- open and close --------------------------------------------------------------------------------------------

result<std::unique_ptr<net_endpoint>> net_endpoint::open(const lsched::world& place, std::vector<net_sockets> sockets,
                                                         const net_options& options,
                                                         std::vector<descriptor> listening) {
  std::unique_ptr<net_endpoint> made(new net_endpoint(place, options));
  if (auto begun = made->begin(std::move(sockets), std::move(listening)); !begun) return begun.error();
  return made;
}

net_endpoint::net_endpoint(const lsched::world& place, const net_options& options)
    : endpoint(
          place, "net",
          {.liveness = this, .has_cancellation_points = true, .direct = options.bell == nullptr ? &watcher_ : nullptr}),
      process_(getpid()),
      shutdown_(options.shutdown),
      lost_after_(options.lost_after),
      bell_(options.bell != nullptr ? *options.bell : own_bell_),
      links_(place.size),
      losses_(std::make_unique<std::atomic<rank>[]>(static_cast<std::size_t>(place.size))),
      boards_(place.self, *this) {}

net_endpoint::~net_endpoint() { close(); }

result<bool> net_endpoint::begin(std::vector<net_sockets> sockets, std::vector<descriptor> listening) {
  listening_ = std::move(listening);
  for (const descriptor& one : listening_) guard_.add(one.get());
  set_ = make_descriptor([] { return epoll_create1(EPOLL_CLOEXEC); });
  const std::size_t most = 64 + board::record_bytes * sockets.size();  // a board sends the records of all members
  for (rank peer = 0; peer < static_cast<rank>(sockets.size()); ++peer) {
    net_sockets& of = sockets[static_cast<std::size_t>(peer)];
    connections_.push_back(nullptr);
    if (!of.control) continue;
    auto made = std::make_unique<connection>(peer, std::move(of),
                                             std::max<std::size_t>(most, k_most_direct_bytes + sizeof(message_head)));
    for (const which socket : {control, bulk}) {
      epoll_event what{.events = EPOLLIN, .data = {.u64 = name_of(peer, socket)}};
      const int number = socket == control ? made->control.socket() : made->bulk.socket();
      if (!set_ || epoll_ctl(set_.get(), EPOLL_CTL_ADD, number, &what) != 0)
        return failure{status::no_memory,
                       std::string("the system cannot watch a connection between ranks (epoll): ") + strerror(errno),
                       peer};
      guard_.add(number);
    }
    made->control.reserve(8 * sizeof(frame) + k_most_direct_bytes);
    connections_.back() = std::move(made);
  }
  unwritten_.reserve(connections_.size());
  suspects_.reserve(connections_.size());
  return watcher_.start(set_.get(), bell_);
}

// The last frame to each peer is `goodbye`. The kernel delivers all bytes that it has taken, with one exception. If
// this process closes a socket that holds unread bytes, the kernel drops the bytes that the peer's kernel has not
// confirmed. So this function reads all bytes that arrive, until the peers' kernels have confirmed all bytes of this
// rank. The wait is bounded.
void net_endpoint::close() {
  if (std::exchange(is_closed_, true)) return;
  if (getpid() != process_) return watcher_.abandon();  // a forked child does not own the connections
  for (link_id link = 0; link < links_.size(); ++link)
    if (links_[link].is_live) awaited_.forget(link);
  for (const auto& to : connections_) {
    if (to == nullptr || to->is_lost) continue;
    put_news(*to);
    put(to->who, {.kind = frame_kind::goodbye});
  }
  const auto is_delivered = [](const auto& to) {
    if (to == nullptr || to->is_lost || to->has_ended[control]) return true;
    return !to->is_unwritten && unconfirmed(to->control.socket()) == 0 &&
           (to->has_ended[bulk] || unconfirmed(to->bulk.socket()) == 0);
  };
  const auto deadline = clock::now() + shutdown_;
  write_all();
  pump();
  for (const auto& to : connections_) {
    if (to == nullptr || to->is_lost || to->is_unwritten) continue;
    if (!to->has_ended[bulk]) shutdown(to->bulk.socket(), SHUT_WR);
  }
  while (health_ == status::ok && !std::ranges::all_of(connections_, is_delivered) && clock::now() < deadline) {
    pump();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  watcher_.stop();
  for (const auto& to : connections_) {
    if (to != nullptr) close_sockets(*to);
  }
  for (descriptor& one : listening_) {
    (void)shutdown(one.get(), SHUT_RDWR);  // another process may hold the socket
    guard_.remove(one.get());
    one.reset();
  }
}

// --- commit ----------------------------------------------------------------------------------------------------

result<std::unique_ptr<board>> net_endpoint::open_board(std::size_t) { return std::unique_ptr<board>(boards_.open()); }

std::unique_ptr<board> net_endpoint::open_home_board() { return boards_.open_home(place().size); }

// The peers of a board may wait for the message while this rank does not poll, so the message is written at once.
void net_endpoint::send(rank peer, const content& bytes) {
  put(peer, {.kind = frame_kind::board}, *bytes);
  write_all();
}

// A board may call this function between a thread's last poll and the thread's sleep. If the function finds an event
// that only poll() reports, the function rings this rank's own bell. So the thread does not sleep.
status net_endpoint::receive(bool) {
  pump();
  ring_for_news();
  return health_;
}

/// Rings this rank's own bell if poll() has an event or a loss to report.
void net_endpoint::ring_for_news() {
  if (awaited_.due() == 0 && !has_bad_news()) return;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  ring_if_needed(bell_);
}

bool net_endpoint::is_silent(rank peer) const {
  return is_lost(peer) && connections_[static_cast<std::size_t>(peer)]->is_silent;
}

bool net_endpoint::is_gone(rank peer) const {
  const auto& to = connections_[static_cast<std::size_t>(peer)];
  return to != nullptr && (to->is_lost || to->has_said_goodbye);
}

result<std::vector<link_id>> net_endpoint::attach(std::uint32_t id, std::span<const rank> members, bool credits,
                                                  std::span<const edge_spec> edges) {
  if (health_ != status::ok) return failure{health_, "the network has failed", culprit_};
  auto answer = links_.attach(id, members, credits, edges);
  if (!answer) return answer;
  awaited_.reserve(links_.size());
  streamed_.reserve(links_.size());
  for (const link_id link : *answer) {
    const net_link& state = links_[link];
    connection* const to = connections_[static_cast<std::size_t>(state.spec.peer)].get();
    if (to == nullptr) continue;
    to->control.reserve(net_links::control_bytes_of(state));
    to->news.reserve(links_.size());
    if (state.spec.outgoing && state.is_large(state.spec.capacity)) to->bulk.reserve();
  }
  return answer;
}

status net_endpoint::link(std::uint32_t id, std::span<const member_address> all) {
  if (!links_.is_unlinked(id) || all.size() != links_.members_of(id)) return status::internal;
  links_.link(id, all);
  if (links_.end_of(id)) pass_on_cancellation(id);
  return health_;
}

void net_endpoint::detach(std::uint32_t id) {
  for (const link_id link : links_.of(id)) {
    net_link& state = links_[link];
    awaited_.forget(link);
    connection* const to = connections_[static_cast<std::size_t>(state.spec.peer)].get();
    if (to == nullptr) continue;
    if (state.has_news) {
      put_news(state);
      std::erase(to->news, link);
    }
    to->bulk.abandon(link);
    to->control.unreserve(net_links::control_bytes_of(state));
    if (state.spec.outgoing && state.is_large(state.spec.capacity)) to->bulk.unreserve();
  }
  links_.detach(id);
}

// --- giving up -------------------------------------------------------------------------------------------------

void net_endpoint::cancel(std::uint32_t id, const end_reason& reason) {
  if (!links_.end(id, reason)) return;
  report_cancelled({id, reason});
  kill_links(id);
  if (!links_.is_unlinked(id)) pass_on_cancellation(id);
}

void net_endpoint::pass_on_cancellation(std::uint32_t id) {
  for (const link_id link : links_.link_to_each_peer(id))
    put(links_[link].spec.peer,
        {.kind = frame_kind::cancelled, .instance = links_[link].instance, .value = links_.end_of(id)->packed()});
}

void net_endpoint::kill_links(std::uint32_t id) {
  for (const link_id link : links_.of(id)) {
    net_link& state = links_[link];
    if (state.is_sending()) links_.note_unsent(id);
    if (connection* const to = open_connection_to(state.spec.peer); to != nullptr && to->bulk.abandon(link))
      note_unwritten(*to);
    awaited_.forget(link);
    state.is_live = false;
  }
}

void net_endpoint::abandon(std::uint32_t id) { kill_links(id); }

// A payload that the kernel has taken is not read from this rank's memory any more. All other payloads are abandoned.
void net_endpoint::close_to_readers(std::uint32_t id, const end_reason& reason) {
  const auto is_sending = [this](link_id link) { return links_[link].is_sending(); };
  const std::span<const link_id> all = links_.of(id);
  if (!all.empty() && (links_.has_unsent(id) || std::ranges::any_of(all, is_sending))) cancel(id, reason);
}

// After abandon() or cancel(), no payload is read from the memory of this rank.
status net_endpoint::check_readers(std::uint32_t, rank* reader) {
  *reader = k_no_rank;
  return status::ok;
}

// --- the connections -------------------------------------------------------------------------------------------

net_endpoint::connection* net_endpoint::open_connection_to(rank peer) const {
  connection* const to = connections_[static_cast<std::size_t>(peer)].get();
  return to == nullptr || to->is_lost || to->has_ended[control] ? nullptr : to;
}

void net_endpoint::note_unwritten(connection& to) {
  if (!std::exchange(to.is_unwritten, true)) unwritten_.push_back(&to);
}

void net_endpoint::put(rank peer, const frame& head, std::span<const std::byte> first,
                       std::span<const std::byte> second) {
  connection* const to = open_connection_to(peer);
  if (to == nullptr) return;
  to->control.put(head, first, second);
  note_unwritten(*to);
}

void net_endpoint::put_about(const net_link& state, frame_kind kind, std::uint64_t value) {
  put(state.spec.peer, {.kind = kind, .instance = state.instance, .index = state.index, .value = value});
}

void net_endpoint::put_news(net_link& of) {
  of.has_news = false;
  if (of.sent_refused < of.refused) put_about(of, frame_kind::refused, of.refused);
  if (of.sent_ready < of.ready) put_about(of, frame_kind::ready, of.ready);
  if (of.sent_value < of.value) put_about(of, of.spec.signal ? frame_kind::signal : frame_kind::credit, of.value);
  of.sent_refused = of.refused;
  of.sent_ready = of.ready;
  of.sent_value = of.value;
}

void net_endpoint::put_news(connection& to) {
  if (to.news.empty() || to.control.unwritten() > k_most_unwritten) return;
  for (const link_id link : to.news) put_news(links_[link]);
  to.news.clear();
}

// Before a thread sleeps, writes as many bytes as the kernel takes, because the kernel wakes the thread only when a
// full socket takes bytes again.
void net_endpoint::write_all() {
  const std::uint64_t most = has_sleeper(bell_) ? std::numeric_limits<std::uint64_t>::max() : k_turn_bytes;
  for (std::size_t i = 0; i < unwritten_.size();) {
    if (connection& to = *unwritten_[i]; !write(to, most)) {
      ++i;
    } else {
      to.is_unwritten = false;
      unwritten_[i] = unwritten_.back();
      unwritten_.pop_back();
    }
  }
  for (const link_id link : streamed_)
    if (links_[link].is_live && links_[link].wait_for == net_link::wait::stream) awaited_.satisfy(link);
  streamed_.clear();
}

/// Writes the bytes that wait for both sockets, but at most about `most` bytes to the bulk socket. Returns true if no
/// bytes are left, or if the peer cannot receive bytes any more. A full socket is written again only after the kernel
/// has reported room.
bool net_endpoint::write(connection& to, std::uint64_t most) {
  if (to.is_lost || to.has_ended[control]) {
    for (const which socket : {control, bulk}) watch_room(to, socket, false);
    return true;
  }
  bool is_written = true;
  for (const which socket : {control, bulk}) {
    while (!to.waits_for_room[socket] && !to.has_ended[socket]) {
      if (socket == control) put_news(to);
      const socket_state how = socket == control ? to.control.write() : to.bulk.write(streamed_, most);
      if (how == socket_state::blocked) watch_room(to, socket, true);
      if (how == socket_state::failed) return note_broken(to), true;
      if (socket == bulk || to.news.empty()) break;
    }
    is_written = is_written && !to.waits_for_room[socket];
  }
  moved_ += to.bulk.take_moved();
  return is_written && to.news.empty() && (to.has_ended[bulk] || !to.bulk.has_more());
}

/// If `is_blocked` is true, arranges that the kernel reports when the socket takes more bytes. Otherwise ends these
/// reports.
void net_endpoint::watch_room(connection& to, which socket, bool is_blocked) {
  if (std::exchange(to.waits_for_room[socket], is_blocked) == is_blocked) return;
  is_blocked ? ++blocked_ : --blocked_;
  if (to.is_lost || to.has_ended[socket]) return;
  const std::uint32_t events = is_blocked ? EPOLLIN | EPOLLOUT : EPOLLIN;
  epoll_event what{.events = events, .data = {.u64 = name_of(to.who, socket)}};
  (void)epoll_ctl(set_.get(), EPOLL_CTL_MOD, socket == control ? to.control.socket() : to.bulk.socket(), &what);
}

// Writes and reads one turn of each connection, without waiting. If a thread has announced that it will sleep, arms the
// watcher.
void net_endpoint::pump() {
  if (health_ != status::ok) return;
  write_all();
  std::array<epoll_event, 64> news;
  const int found = epoll_wait(set_.get(), news.data(), static_cast<int>(news.size()), 0);
  for (int i = 0; i < found && health_ == status::ok; ++i) {
    const epoll_event& of = news[static_cast<std::size_t>(i)];
    connection& with = *connections_[static_cast<std::size_t>(of.data.u64 >> 2)];
    const auto socket = static_cast<which>(of.data.u64 & 3);
    if (socket == presence) {
      if (with.presence) read_presence(with);
      continue;
    }
    if (with.is_lost || with.has_ended[socket]) continue;
    if ((of.events & EPOLLOUT) != 0) watch_room(with, socket, false);
    if ((of.events & ~static_cast<std::uint32_t>(EPOLLOUT)) == 0) continue;
    do {
      socket == control ? static_cast<void>(read_control(with)) : read_bulk(with);
    } while (has_decrypted(with, socket));
  }
  verify_suspects();
  if (found > 0) write_all();
  if (has_sleeper(bell_) && !is_closed_) watcher_.arm();
}

/// Returns whether a socket has bytes that were decrypted but not read. The kernel does not report such bytes.
bool net_endpoint::has_decrypted(const connection& from, which socket) const {
  if (health_ != status::ok || from.is_lost || from.has_ended[socket]) return false;
  return socket == control ? from.control.has_decrypted() : from.bulk.has_decrypted();
}

/// Returns true if more bytes may have arrived.
bool net_endpoint::read_control(connection& from) {
  socket_state how = socket_state::blocked;
  do {
    how = from.control.read(landing_place(from));
    if (how == socket_state::failed) note_broken(from);
    if (health_ != status::ok) return false;
    while (const auto news = from.control.next()) {
      if (!take(from, *news)) return fail(from.who), false;
      if (from.is_lost) return false;
      if (from.has_said_goodbye) confirm(from.control.socket());  // close() of the peer waits for the confirmation
    }
    if (from.control.is_invalid() || !begin_landing(from)) return fail(from.who), false;
  } while (how == socket_state::blocked && from.control.landing_message() != nullptr);
  if (how != socket_state::ended && how != socket_state::failed) return how == socket_state::blocked;
  stop_reading(from, control);
  if (!from.has_said_goodbye) check_presence(from);
  return false;
}

void net_endpoint::read_bulk(connection& from) {
  reading_from_ = from.who;
  const socket_state how = from.bulk.read(*this, k_turn_bytes);
  moved_ += from.bulk.take_moved();
  if (from.bulk.is_invalid()) return fail(from.who);
  if (how == socket_state::failed && is_own_fault()) return;
  if (how == socket_state::ended || how == socket_state::failed) stop_reading(from, bulk);
}

void net_endpoint::stop_reading(connection& from, which socket) {
  const int number = socket == control ? from.control.socket() : from.bulk.socket();
  from.has_ended[socket] = true;
  from.ended_at[socket] = clock::now();
  confirm(number);
  (void)epoll_ctl(set_.get(), EPOLL_CTL_DEL, number, nullptr);
}

void net_endpoint::close_sockets(connection& of) {
  end_presence_check(of);
  for (const int socket : {of.control.socket(), of.bulk.socket()}) {
    if (socket < 0) continue;
    // Another process may also hold the socket. Then closing the descriptor would neither end the connection nor remove
    // the socket from the set.
    (void)epoll_ctl(set_.get(), EPOLL_CTL_DEL, socket, nullptr);
    (void)shutdown(socket, SHUT_RDWR);
    guard_.remove(socket);
  }
  of.control.close();
  of.bulk.close();
}

}  // namespace lsched
