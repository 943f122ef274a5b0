// net_endpoint finds and records lost ranks.
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "libsched/transport/net/net_endpoint.h"

namespace lsched {
namespace {

using clock = std::chrono::steady_clock;

/// The kernel probes an idle connection after this time (wire_up.cc, prepare()).
constexpr std::chrono::milliseconds k_probe_period{1000};
/// When a network partition begins, the last answer may be a probe period old. A quarter of a period is added, because
/// the next answer needs time to arrive.
constexpr auto k_oldest_answer = k_probe_period * 5 / 4;
/// Longer than the silence of a living peer whose kernel has not answered the last probe yet.
constexpr auto k_shortest_silence = k_probe_period * 3 / 2;
/// Number of unanswered probes that make a silence certain, because a single probe could be lost. By default, the
/// kernel sends four probes before an idle connection counts as lost (net_limits::lost_after).
constexpr std::uint8_t k_certain_probes = 3;
/// Maximum number of times that the check of a peer's presence is repeated immediately after a reset.
constexpr int k_most_resets = 3;
/// After the end of a network partition, the kernel repeats bytes within this time.
constexpr std::chrono::seconds k_remembered{5};

struct kernel_silence {
  std::chrono::milliseconds length{};  ///< time since the last segment of the peer's kernel
  bool is_unanswered = false;          ///< bytes or probes that were sent after this segment are unanswered
  bool is_certain = false;             ///< repeated bytes, or several probes, are unanswered
};

/// Returns the silence of the peer's kernel on a connection. A peer that reads nothing is not silent, because its
/// kernel confirms the probes. While the peer's window is full, the probes may be minutes apart, so the length alone
/// does not show a silence. This rank's kernel records the last arrival of data and the last arrival of a confirmation
/// separately.
kernel_silence silence_of(int socket) {
  tcp_info of{};
  socklen_t bytes = sizeof of;
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &of, &bytes) != 0) return {};
  const bool is_repeated = of.tcpi_unacked != 0 && of.tcpi_retransmits != 0;
  return {std::chrono::milliseconds(std::min(of.tcpi_last_ack_recv, of.tcpi_last_data_recv)),
          is_repeated || of.tcpi_probes != 0, is_repeated || of.tcpi_probes >= k_certain_probes};
}

/// Returns whether the kernel has something to report about the socket, such as an error or the end of the connection.
bool has_event(int socket) {
  pollfd news{socket, POLLIN | POLLRDHUP, 0};
  return ::poll(&news, 1, 0) == 1;
}

}  // namespace

/// Records that rank `culprit` has caused a fatal error, for example by breaking the protocol. Afterwards the endpoint
/// makes no progress.
void net_endpoint::fail(rank culprit) {
  health_ = status::transport;
  culprit_ = culprit;
}

/// Reads all bytes that have arrived on the control socket.
void net_endpoint::read_rest(connection& from) {
  while (!from.is_lost && !from.has_ended[control] && health_ == status::ok && read_control(from)) {
  }
}

/// Returns whether memory of this rank's application has caused the error of a socket call, because the memory is not
/// mapped or is read-only. If so, records the error.
bool net_endpoint::is_own_fault() {
  if (errno != EFAULT) return false;
  fail(place().self);
  return true;
}

// The kernel reports the error of a connection only once, so this function records whether the peer did not answer. The
// peer's kernel may have given up the connection during a network partition. That kernel then resets the connection
// after the network partition, although the peer's process may live.
void net_endpoint::note_broken(connection& to) {
  if (is_own_fault()) return;
  to.is_cut = to.is_cut || is_error_of_cut();
  to.is_answer_old = silence_of(to.control.socket()).length > lost_after_;
}

// The end of a connection does not prove that the process of the peer has ended. For example, a firewall that forgets a
// connection resets this connection, although both processes live. A process that has ended does not listen any more.
// So this rank connects to the listening socket of the peer. The kernel of the peer may still accept this connection
// while the process is ending. That kernel then resets the connection as soon as it closes the listening socket, and
// refuses the next connection.
//
// If the last answer is old, a network partition may just have healed. Then the decision about the peer must not wait,
// because the other connections heal, too. The process has either ended long ago or lives. So if the kernel accepts the
// connection, this rank immediately regards the peer as silent.
void net_endpoint::check_presence(connection& of) {
  if (of.is_cut) return suspects_.push_back({of.who, true});
  if (of.listens_at.family == 0) return;
  of.presence = new_socket(of.listens_at);
  const int number = of.presence.get();
  if (number < 0) return;
  guard_.add(number);
  const bool is_ipv4 = of.listens_at.family == 4;
  set_option(number, is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6, is_ipv4 ? IP_RECVERR : IPV6_RECVERR, 1);
  set_option(number, SOL_SOCKET, SO_KEEPALIVE, 1);
  for (const int option : {TCP_KEEPIDLE, TCP_KEEPINTVL}) set_option(number, IPPROTO_TCP, option, 1);
  const std::uint32_t on_acceptance = of.is_answer_old ? std::uint32_t{EPOLLOUT} : 0;
  epoll_event what{.events = EPOLLIN | EPOLLRDHUP | on_acceptance, .data = {.u64 = name_of(of.who, presence)}};
  if (!begin_connection(number, of.listens_at)) return note_presence(of, errno);
  if (epoll_ctl(set_.get(), EPOLL_CTL_ADD, number, &what) != 0) end_presence_check(of);
}

/// Must be called if the kernel has reported an event of the connection that check_presence() has opened.
void net_endpoint::read_presence(connection& of) {
  int error = 0;
  socklen_t bytes = sizeof error;
  (void)getsockopt(of.presence.get(), SOL_SOCKET, SO_ERROR, &error, &bytes);
  note_presence(of, error);
}

/// Ends a check of presence. `error`: the error of the connection `presence`, or 0. Only a refusal by the peer's kernel
/// proves that the process has ended. A router reports an error by ICMP, and the kernel (Linux 5.8 or later) then
/// stores the error in a queue. If the connection was accepted and then reset, the listening socket was closed, or a
/// firewall has interfered. The next attempt distinguishes the two cases. Without a proof, inspect_end() repeats the
/// check, or decides that the peer is silent.
void net_endpoint::note_presence(connection& of, int error) {
  const bool is_of_router = recv(of.presence.get(), nullptr, 0, MSG_ERRQUEUE | MSG_DONTWAIT) >= 0;
  end_presence_check(of);
  if (!is_of_router && error == ECONNREFUSED) return suspects_.push_back({of.who, false});
  if (error == ECONNRESET && ++of.resets <= k_most_resets) return check_presence(of);
  if (error == 0 && of.is_answer_old) suspects_.push_back({of.who, true});
}

void net_endpoint::end_presence_check(connection& of) {
  if (!of.presence) return;
  (void)epoll_ctl(set_.get(), EPOLL_CTL_DEL, of.presence.get(), nullptr);
  guard_.remove(of.presence.get());
  of.presence.reset();
}

// Records losses in the order in which they were found. A rank may end because of the loss of another rank. Such a rank
// has reported that loss before its own connection ended. Bytes of a reported rank, such as `goodbye`, may have arrived
// before the loss. So these bytes are read first.
//
// A network partition separates this rank from several peers, and heals for one connection after the other. So all
// peers that are silent, or were silent shortly before, are lost together. All losses are recorded before any loss is
// reported. Otherwise a rank on the other side could be informed of the losses of other ranks on that side. If a peer
// that was silent reports the loss of a rank that was not silent, this peer is on the other side of the network
// partition. Then this peer is lost, and not the reported rank.
void net_endpoint::verify_suspects() {
  if (suspects_.empty()) return;
  const auto now = clock::now();
  const rank first = lost_.load();
  bool has_found_side = false;
  for (std::size_t i = 0; i < suspects_.size() && health_ == status::ok; ++i) {
    const auto [named, is_silent, by] = suspects_[i];
    if (is_silent && !std::exchange(has_found_side, true)) (void)note_silence(now);
    const bool is_from_other_side =
        is_silent && by != k_no_rank && was_silent(by, now) && !is_lost(named) && !was_silent(named, now);
    const rank who = is_from_other_side ? by : named;
    connection& with = *connections_[static_cast<std::size_t>(who)];
    read_rest(with);
    if (with.is_lost || with.has_said_goodbye || health_ != status::ok) continue;
    lose(who, is_silent);
    for (rank peer = 0; peer < place().size && is_silent; ++peer)
      if (was_silent(peer, now)) suspects_.push_back({peer, true});
  }
  suspects_.clear();
  report_losses(first);
}

/// Reads the kernel's state of all control connections. Returns whether the kernel of a peer has not answered yet.
bool net_endpoint::note_silence(clock::time_point now) {
  bool is_any_unanswered = false;
  for (const auto& with : connections_) {
    if (with == nullptr || with->is_lost || with->has_ended[control]) continue;
    const kernel_silence silence = silence_of(with->control.socket());
    is_any_unanswered = is_any_unanswered || silence.is_unanswered;
    if (!silence.is_unanswered || silence.length <= k_shortest_silence) continue;
    with->silent_at = now;
    with->silence = silence.is_certain ? silence.length : std::chrono::milliseconds(0);
  }
  return is_any_unanswered;
}

/// Returns whether a peer that is not lost is silent, or was silent shortly before.
bool net_endpoint::was_silent(rank peer, clock::time_point now) const {
  const auto& with = connections_[static_cast<std::size_t>(peer)];
  return with != nullptr && !with->is_lost && with->silent_at && now - *with->silent_at < k_remembered;
}

// Informs a peer that this rank regards it as lost. The control socket remains open, because the peer's kernel would
// report a closed socket in the same way as the end of this process.
void net_endpoint::mute(connection& of) {
  for (const int socket : {of.control.socket(), of.bulk.socket()})
    (void)epoll_ctl(set_.get(), EPOLL_CTL_DEL, socket, nullptr);
  of.control.put({.kind = frame_kind::lost, .index = 1, .value = static_cast<std::uint64_t>(of.who)});
  (void)of.control.write();  // find_dead_peer() writes the rest
}

void net_endpoint::lose(rank who, bool is_silent) {
  connection& with = *connections_[static_cast<std::size_t>(who)];
  if (std::exchange(with.is_lost, true)) return;
  with.is_silent = is_silent;
  end_presence_check(with);
  const rank number = lost_.load();
  losses_[static_cast<std::size_t>(number)].store(who);
  lost_.store(number + 1);
  report_lost(who);
  is_silent && !with.has_ended[control] ? mute(with) : close_sockets(with);
  with.news.clear();
  note_unwritten(with);
}

// Informs the peers about the losses from index `first` on. A lost rank that has sent `goodbye` has sent it to each
// peer, so no report is needed.
void net_endpoint::report_losses(rank first) {
  for (rank i = first; i < lost_.load(); ++i) {
    const connection& with = *connections_[static_cast<std::size_t>(lost_after(i))];
    if (with.has_said_goodbye) continue;
    const frame news{
        .kind = frame_kind::lost, .index = with.is_silent ? 1u : 0u, .value = static_cast<std::uint64_t>(with.who)};
    for (const auto& to : connections_)
      if (to != nullptr && !to->is_lost) put(to->who, news);
  }
}

// The last bytes of the lost rank have arrived before its loss was found, so they are read first.
void net_endpoint::record_lost(rank who) {
  if (connections_[static_cast<std::size_t>(who)] == nullptr || is_lost(who)) return;
  read_rest(*connections_[static_cast<std::size_t>(who)]);
  const rank first = lost_.load();
  lose(who);
  report_losses(first);
  write_all();  // this process may end before it polls again
  ring_for_news();
}

bool net_endpoint::is_lost(rank who) const {
  const auto& with = connections_[static_cast<std::size_t>(who)];
  return with != nullptr && with->is_lost;
}

rank net_endpoint::lost_after(rank others) const {
  return others < lost_.load() ? losses_[static_cast<std::size_t>(others)].load() : k_no_rank;
}

/// Returns true if the link waits for a peer that has closed its endpoint. If the peer has ended the edge before it
/// closed its endpoint, this function returns false, because the user of the link gets a cancellation.
bool net_endpoint::waits_in_vain(const net_link& state) const {
  if (!state.is_live || state.wait_for == net_link::wait::nothing || state.is_due) return false;
  if (state.wait_for == net_link::wait::message && state.round > state.last) return false;
  const auto& with = connections_[static_cast<std::size_t>(state.spec.peer)];
  return with != nullptr && !with->is_lost && with->has_said_goodbye && with->has_ended[bulk];
}

rank net_endpoint::find_dead_peer() {
  pump();
  for (link_id link = 0; link < links_.size(); ++link)
    if (waits_in_vain(links_[link])) lose(links_[link].spec.peer);
  inspect_connections(clock::now());
  write_all();
  ring_for_news();
  return lost_after(0);
}

// Handles a control or bulk connection that has ended without `goodbye`: repeats the check of the peer's presence, or
// decides that the peer is silent.
//
// A peer that closes its endpoint ends its bulk connection and sends `goodbye` at the same time. If only the bulk
// connection has ended, this connection is broken, but the process of the peer may live.
void net_endpoint::inspect_end(connection& of, clock::time_point now) {
  const which ended = of.has_ended[control] ? control : bulk;
  if (!of.has_ended[ended]) return;
  if (of.presence && has_event(of.presence.get())) read_presence(of);
  if (now - of.ended_at[ended] > lost_after_)
    suspects_.push_back({of.who, true});
  else if (ended == control && !of.presence)
    check_presence(of);
}

// Also examines the bulk connection, because a network may drop only the segments of this connection.
bool net_endpoint::is_silent_for_too_long(const connection& of, clock::time_point now) const {
  const auto limit = lost_after_ + k_oldest_answer;
  if (of.silent_at == now && of.silence > limit) return true;
  if (of.has_ended[bulk]) return false;
  const kernel_silence silence = silence_of(of.bulk.socket());
  return silence.is_certain && silence.length > limit;
}

// Reads the kernel's state of all connections about once per probe period, and more often while an answer is missing.
void net_endpoint::inspect_connections(clock::time_point now) {
  if (now < next_inspection_) return;
  for (const auto& with : connections_) {
    if (with != nullptr && with->is_silent && !with->has_ended[control]) (void)with->control.write();
    if (with != nullptr && !with->is_lost && !with->has_said_goodbye) inspect_end(*with, now);
  }
  const bool is_any_unanswered = note_silence(now);
  for (const auto& with : connections_)
    if (with != nullptr && !with->is_lost && !with->has_ended[control] && is_silent_for_too_long(*with, now))
      suspects_.push_back({with->who, true});
  next_inspection_ = now + std::min<clock::duration>(lost_after_, k_probe_period / (is_any_unanswered ? 10 : 1));
  verify_suspects();
}

}  // namespace lsched
