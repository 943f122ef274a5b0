// The losses of net_endpoint: how they are found and recorded.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <chrono>
#include <utility>

#include "libsched/transport/net/net_endpoint.h"

namespace lsched {
namespace {

using clock = std::chrono::steady_clock;

/// Returns whether the peer's kernel has been silent for `limit` although bytes or probes were sent. A peer that reads
/// nothing is not silent, because its kernel confirms the probes.
bool is_kernel_silent(int socket, std::chrono::milliseconds limit) {
  tcp_info of{};
  socklen_t bytes = sizeof of;
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &of, &bytes) != 0) return false;
  constexpr unsigned k_least_probes = 3;
  const bool is_unanswered = (of.tcpi_unacked != 0 && of.tcpi_retransmits != 0) || of.tcpi_probes >= k_least_probes;
  return is_unanswered && std::chrono::milliseconds(of.tcpi_last_ack_recv) > limit;
}

}  // namespace

/// Records that a peer has broken the protocol. Afterwards the endpoint makes no progress.
void net_endpoint::fail(rank culprit) {
  health_ = status::transport;
  culprit_ = culprit;
}

/// Reads all bytes that have arrived on the control socket.
void net_endpoint::read_rest(connection& from) {
  while (!from.is_lost && !from.has_ended[control] && health_ == status::ok && read_control(from)) {
  }
}

// Records losses in the order in which they were found: a rank that ends because of a loss has reported the loss before
// its own connection ended. Bytes of a reported rank may have arrived before the loss, `goodbye` included, so they are
// read first.
void net_endpoint::verify_suspects() {
  for (std::size_t i = 0; i < suspects_.size() && health_ == status::ok; ++i) {
    const auto [who, is_silent] = suspects_[i];
    connection& with = *connections_[static_cast<std::size_t>(who)];
    read_rest(with);
    if (!with.is_lost && !with.has_said_goodbye && health_ == status::ok) lose(who, is_silent);
  }
  suspects_.clear();
}

// Informs a peer that this rank regards it as lost. The control socket remains open, because the peer's kernel would
// report a closed socket like the end of this process.
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
  const rank number = lost_.load();
  losses_[static_cast<std::size_t>(number)].store(who);
  lost_.store(number + 1);
  report_lost(who);
  is_silent ? mute(with) : close_sockets(with);
  with.news.clear();
  note_unwritten(with);
  if (with.has_said_goodbye) return;  // each rank has a goodbye of its own
  for (const auto& to : connections_)
    if (to != nullptr && !to->is_lost)
      put(to->who, {.kind = frame_kind::lost, .index = is_silent ? 1u : 0u, .value = static_cast<std::uint64_t>(who)});
}

// The last bytes of the lost rank have arrived before its loss was found, so they are read first.
void net_endpoint::record_lost(rank who) {
  if (connections_[static_cast<std::size_t>(who)] == nullptr || is_lost(who)) return;
  read_rest(*connections_[static_cast<std::size_t>(who)]);
  lose(who);
  write_all();  // this process may end before it polls again
}

bool net_endpoint::is_lost(rank who) const {
  const auto& with = connections_[static_cast<std::size_t>(who)];
  return with != nullptr && with->is_lost;
}

rank net_endpoint::lost_after(rank others) const {
  return others < lost_.load() ? losses_[static_cast<std::size_t>(others)].load() : k_no_rank;
}

/// Returns true if the link waits for a peer that has closed its endpoint.
bool net_endpoint::waits_in_vain(const net_link& state) const {
  if (!state.is_live || state.wait_for == net_link::wait::nothing || state.is_due) return false;
  const auto& with = connections_[static_cast<std::size_t>(state.spec.peer)];
  return with != nullptr && !with->is_lost && with->has_said_goodbye && with->has_ended[bulk];
}

// A peer that closes ends its bulk connection and sends `goodbye` at the same time. If only the bulk connection has
// ended, the connection is broken, but the process of the peer lives.
rank net_endpoint::find_dead_peer() {
  pump();
  for (link_id link = 0; link < links_.size(); ++link)
    if (waits_in_vain(links_[link])) lose(links_[link].spec.peer);
  const auto now = clock::now();
  const bool is_due = now >= next_inspection_;
  if (is_due) next_inspection_ = now + std::min<clock::duration>(lost_after_, std::chrono::seconds(1));
  for (const auto& with : connections_) {
    if (is_due && with != nullptr && with->is_silent) (void)with->control.write();
    if (!is_due || with == nullptr || with->is_lost || with->has_ended[control]) continue;
    const bool is_broken = with->has_ended[bulk] && !with->has_said_goodbye && now - with->bulk_ended_at > lost_after_;
    if (is_broken || is_kernel_silent(with->control.socket(), lost_after_)) lose(with->who, true);
  }
  write_all();
  return lost_after(0);
}

}  // namespace lsched
