// The data path of net_endpoint.
#include <algorithm>
#include <cstring>
#include <utility>

#include "libsched/transport/net/net_endpoint.h"

namespace lsched {
namespace {

using wait = net_link::wait;

/// Larger payloads are not copied to the buffer of the control socket.
constexpr std::uint64_t k_least_uncopied = 4096;
/// is_moving() returns true each time this number of bytes has moved. If a thread's polling time ends before that, the
/// thread sleeps.
constexpr std::uint64_t k_reported_bytes = std::uint64_t{64} << 10;

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace

// --- payload out -----------------------------------------------------------------------------------------------

bool net_endpoint::send(link_id link, round_no round, const message& payload) {
  if (links_[link].may_send(round)) return transmit(link, round, payload);
  links_[link].outgoing = payload;
  awaited_.await(link, wait::turn, round);
  return false;
}

// Returns true if the source buffer may be reused at once.
bool net_endpoint::transmit(link_id link, round_no round, const message& payload) {
  net_link& state = links_[link];
  const message_head what{payload.null ? 0 : payload.bytes, payload.tally, payload.null ? 1u : 0u};
  const frame about{.kind = frame_kind::message, .instance = state.instance, .index = state.index, .value = round};
  connection* const to = open_connection_to(state.spec.peer);
  if (to == nullptr && what.bytes <= k_most_direct_bytes) return true;
  if (!state.is_large(what.bytes) || (what.bytes <= k_most_direct_bytes && !to->waits_for_room[control])) {
    write_message(*to, about, what, payload.data);
    return true;
  }
  state.outgoing = payload;
  awaited_.await(link, wait::ready, round);
  if (state.ready >= round) {
    begin_stream(link);
  } else {
    frame announcement = about;
    announcement.kind = frame_kind::announcement;
    put(state.spec.peer, announcement, bytes_of(what));
  }
  return false;
}

// Short messages are gathered until the next flush. A long message is written at once, because that saves a copy.
void net_endpoint::write_message(connection& to, const frame& head, const message_head& what,
                                 const std::byte* payload) {
  if (what.bytes <= k_least_uncopied || to.waits_for_room[control])
    return put(to.who, head, bytes_of(what), {payload, what.bytes});
  put_news(to);
  const socket_state how = to.control.write(head, bytes_of(what), {payload, what.bytes});
  if (how == socket_state::blocked) watch_room(to, control, true);
  if (how == socket_state::failed) note_broken(to);
  if (to.control.unwritten() != 0) note_unwritten(to);
}

void net_endpoint::begin_stream(link_id link) {
  net_link& state = links_[link];
  state.wait_for = wait::stream;
  connection* const to = open_connection_to(state.spec.peer);
  if (to == nullptr) return;
  const message_head what{state.outgoing.bytes, state.outgoing.tally, 0};
  to->bulk.send(link, {.instance = state.instance, .index = state.index, .value = state.round}, what,
                state.outgoing.data);
  note_unwritten(*to);
}

void net_endpoint::end_edge(link_id link, round_no last) { put_about(links_[link], frame_kind::last_message, last); }

// --- payload in ------------------------------------------------------------------------------------------------

bool net_endpoint::receive(link_id link, round_no round, message_target into, arrival& out) {
  net_link& state = links_[link];
  state.into = into;
  state.moved = 0;
  const net_cell& cell = state.cell_of(round);
  awaited_.await(link, wait::message, round);
  if (cell.has != net_cell::content::nothing && cell.round == round) {
    if (!take_cell(link)) return false;
    out = state.incoming;
    awaited_.forget(link);
    return true;
  }
  if (can_land(state)) tell(link, &net_link::ready, round);
  expect(state);
  return false;
}

/// Returns true if the target has room for every message of the edge. The receiver is then ready for a large payload
/// before the length of the payload is known.
bool net_endpoint::can_land(const net_link& state) const {
  return state.spec.capacity > k_most_direct_bytes && !state.spec.announced &&
         (state.spec.in_place || state.into.bytes >= state.spec.capacity);
}

// Takes the message of the awaited round. The message must have arrived, or must have been announced. Returns true if
// the receive is complete.
bool net_endpoint::take_cell(link_id link) {
  net_link& state = links_[link];
  const net_cell& cell = state.cell_of(state.round);
  state.incoming = {nullptr, cell.what.bytes, cell.what.tally, cell.what.null != 0};
  return state.spec.announced && cell.what.null == 0 ? true : bring(link);
}

// Moves the payload of the awaited round to the target. Returns true if the payload has arrived, or was dropped because
// the target has no room.
bool net_endpoint::bring(link_id link) {
  net_link& state = links_[link];
  net_cell& cell = state.cell_of(state.round);
  const bool fits = state.spec.in_place || cell.what.bytes <= state.into.bytes;
  if (cell.has == net_cell::content::announced) {
    if (fits) {
      tell(link, &net_link::ready, state.round);
      return false;
    }
  } else if (state.spec.in_place) {
    state.incoming.data = cell.payload;
  } else if (fits) {
    state.incoming.data = state.into.memory;
    if (cell.what.bytes != 0) std::memcpy(state.into.memory, cell.payload, cell.what.bytes);
  }
  return has_arrived(link);
}

// Releases the message unless the payload is read in place. Always returns true.
bool net_endpoint::has_arrived(link_id link) {
  const net_link& state = links_[link];
  if (state.incoming.null || !state.spec.in_place) release(link, state.round);
  return true;
}

bool net_endpoint::fetch(link_id link, round_no round, message_target into, arrival& out) {
  net_link& state = links_[link];
  state.into = into;
  state.moved = 0;
  awaited_.await(link, wait::message, round);
  if (!bring(link)) return false;
  out = state.incoming;
  awaited_.forget(link);
  return true;
}

void net_endpoint::release(link_id link, round_no round) {
  net_link& state = links_[link];
  if (net_cell& cell = state.cell_of(round); cell.round == round) {
    const bool is_unread = cell.has == net_cell::content::announced && state.ready < round;
    cell.has = net_cell::content::nothing;
    if (is_unread) tell(link, &net_link::refused, round);
  }
  if (state.credits) tell(link, &net_link::value, round, round >= state.sent_value + 2);
}

// --- signals ---------------------------------------------------------------------------------------------------

void net_endpoint::signal(link_id link, round_no round) { tell(link, &net_link::value, round); }

// Raises one of the values of a link. If the value is urgent, flush() or poll() then writes the value to the peer.
// Otherwise the value is written together with other bytes for the peer.
void net_endpoint::tell(link_id link, std::uint64_t net_link::*value, std::uint64_t now, bool is_urgent) {
  net_link& state = links_[link];
  if (now <= state.*value) return;
  state.*value = now;
  connection* const to = open_connection_to(state.spec.peer);
  if (to == nullptr) return;
  if (!std::exchange(state.has_news, true)) to->news.push_back(link);
  if (is_urgent) note_unwritten(*to);
}

bool net_endpoint::arm(link_id link, round_no round) {
  awaited_.forget(link);
  if (links_[link].value >= round) return true;
  awaited_.await(link, wait::signal, round);
  expect(links_[link]);
  return false;
}

// Withdraws a send or a receive. After the send was withdrawn, the payload is not read from the caller's memory any
// more. After the receive was withdrawn, the payload is not written to the target any more. The rest of the payload is
// then dropped.
void net_endpoint::disarm(link_id link) {
  net_link& state = links_[link];
  if (state.wait_for == wait::message) state.withdrawn = state.round;
  connection* const to = open_connection_to(state.spec.peer);
  if (state.is_sending() && to != nullptr && to->bulk.abandon(link)) note_unwritten(*to);
  awaited_.forget(link);
}

// --- frames of a peer ------------------------------------------------------------------------------------------

// Handles a frame of the control socket. Returns false if the frame breaks the protocol. A frame about an instance that
// this rank has detached or abandoned is ignored.
bool net_endpoint::take(connection& from, const control_stream::incoming& news) {
  const frame& head = news.head;
  switch (head.kind) {
    case frame_kind::message:
    case frame_kind::announcement: return take_message(links_.find(head.instance, from.who, false, head.index), news);
    case frame_kind::signal: return take_value(links_.find(head.instance, from.who, false, head.index), head);
    case frame_kind::credit:
    case frame_kind::ready:
    case frame_kind::refused: return take_value(links_.find(head.instance, from.who, true, head.index), head);
    case frame_kind::last_message:
      if (const link_id link = links_.find(head.instance, from.who, false, head.index); link != k_no_link) {
        links_[link].last = head.value;
        report_cancelled({head.instance, {from.who, status::peer}, true, head.value});
      }
      return true;
    case frame_kind::cancelled: {
      const auto reason = end_reason::unpack(static_cast<std::uint32_t>(head.value));
      if (reason.why == status::ok || reason.who < k_no_rank || reason.who >= place().size) return false;
      cancel(head.instance, reason);
      return true;
    }
    case frame_kind::board: boards_.take(from.who, news.bytes); return true;
    case frame_kind::lost:
      if (head.value >= connections_.size()) return false;
      // A peer that regards this rank as lost may live on the other side of a network partition.
      suspects_.push_back(static_cast<rank>(head.value) == place().self
                              ? suspect{from.who, true}
                              : suspect{static_cast<rank>(head.value), head.index == 1, from.who});
      return true;
    case frame_kind::goodbye: from.has_said_goodbye = true; return true;
    default: return false;
  }
}

bool net_endpoint::is_awaited(link_id link, round_no round) const {
  const net_link& state = links_[link];
  return state.wait_for == wait::message && state.round == round && !state.is_due;
}

bool net_endpoint::take_message(link_id link, const control_stream::incoming& news) {
  const frame& head = news.head;
  message_head what;
  if (news.bytes.size() < sizeof what) return false;
  std::memcpy(&what, news.bytes.data(), sizeof what);
  const std::span<const std::byte> payload = news.bytes.subspan(sizeof what);
  const bool is_whole = head.kind == frame_kind::message;
  if (!news.has_landed && payload.size() != (is_whole ? what.bytes : 0)) return false;
  if (news.is_ignored || link == k_no_link || !links_[link].is_live) return true;
  if (!is_whole) return take_announcement(link, head, what);
  if (!news.has_landed && !begin_message(link, head, what)) return false;

  net_link& state = links_[link];
  std::byte* const place = place_of(link, head.value);
  if (place == nullptr && what.bytes != 0) return true;
  if (!payload.empty()) std::memcpy(place, payload.data(), payload.size());
  if (state.lands_in_target) {
    state.incoming = {place, what.bytes, what.tally, false};
    if (has_arrived(link)) awaited_.satisfy(link);
    return true;
  }
  state.cell_of(head.value) = {net_cell::content::whole, head.value, what, state.cell_of(head.value).payload};
  if (is_awaited(link, head.value) && take_cell(link)) awaited_.satisfy(link);
  return true;
}

bool net_endpoint::take_announcement(link_id link, const frame& head, const message_head& what) {
  net_link& state = links_[link];
  net_cell& cell = state.cell_of(head.value);
  if (state.spec.signal || what.bytes > state.spec.capacity || !state.is_large(what.bytes) || what.null != 0)
    return false;
  if (state.ready >= head.value) return true;  // `ready` was sent while the announcement was in flight
  if (cell.has != net_cell::content::nothing) return false;
  cell = {net_cell::content::announced, head.value, what, cell.payload};
  if (is_awaited(link, head.value) && take_cell(link)) awaited_.satisfy(link);
  return true;
}

/// Decides where the payload of a message goes. Returns false if the frame breaks the protocol.
bool net_endpoint::begin_message(link_id link, const frame& head, const message_head& what) {
  net_link& state = links_[link];
  if (state.spec.signal || what.bytes > std::min(state.spec.capacity, k_most_direct_bytes) ||
      (what.null != 0 && what.bytes != 0))
    return false;
  const bool is_now = is_awaited(link, head.value);
  if (state.cell_of(head.value).has != net_cell::content::nothing || (is_now && state.moved != 0)) return false;
  state.lands_in_target =
      is_now && !state.spec.announced && !state.spec.in_place && what.null == 0 && what.bytes <= state.into.bytes;
  return true;
}

/// The message must be the argument of the last call of begin_message(). Returns the memory for its payload, or nullptr
/// if the message was abandoned.
std::byte* net_endpoint::place_of(link_id link, round_no round) {
  if (link == k_no_link || !links_[link].is_live) return nullptr;
  net_link& state = links_[link];
  if (!state.lands_in_target) return state.cell_of(round).payload;
  return is_awaited(link, round) ? state.into.memory : nullptr;
}

/// Begins to land the next message of a peer if the message is long. Returns false if the frame breaks the protocol.
bool net_endpoint::begin_landing(connection& from) {
  if (!from.control.begin_landing()) return !from.control.is_invalid();
  const frame& head = from.control.landing_message()->head;
  const link_id link = links_.find(head.instance, from.who, false, head.index);
  const bool is_live = link != k_no_link && links_[link].is_live;
  if (!is_live) from.control.ignore_landing();
  if (is_live && !begin_message(link, head, from.control.landing_message()->what)) return false;
  from.control.land(place_of(link, head.value));
  return true;
}

std::byte* net_endpoint::landing_place(const connection& from) {
  const control_stream::landing* const now = from.control.landing_message();
  if (now == nullptr || now->is_ignored) return nullptr;
  return place_of(links_.find(now->head.instance, from.who, false, now->head.index), now->head.value);
}

bool net_endpoint::take_value(link_id link, const frame& news) {
  if (link == k_no_link || !links_[link].is_live) return true;
  net_link& state = links_[link];
  if (state.spec.signal != (news.kind == frame_kind::signal)) return false;
  const bool is_awaited_round = !state.is_due && state.round == news.value;
  if (news.kind == frame_kind::refused) {
    if (state.wait_for == wait::ready && is_awaited_round) awaited_.satisfy(link);
  } else if (news.kind == frame_kind::ready) {
    state.ready = std::max(state.ready, news.value);
    if (state.wait_for == wait::ready && is_awaited_round) begin_stream(link);
  } else {
    state.value = std::max(state.value, news.value);
    const bool is_free = state.wait_for == wait::turn && !state.is_due && state.may_send(state.round);
    if (is_free && transmit(link, state.round, state.outgoing)) awaited_.satisfy(link);
    if (state.wait_for == wait::signal && state.value >= state.round) awaited_.satisfy(link);
  }
  return true;
}

// --- payloads of the bulk socket ---------------------------------------------------------------------------------

// The receiver is ready for one message of an edge at a time. The sender may send only this message.
bool net_endpoint::part(const frame& about, const message_head& what) {
  const link_id link = links_.find(about.instance, reading_from_, false, about.index);
  if (link == k_no_link || !links_[link].is_live) return true;
  net_link& state = links_[link];
  if (!is_awaited(link, about.value)) return about.value != 0 && state.withdrawn == about.value;
  if (state.spec.signal || what.null != 0 || state.ready != about.value) return false;
  if (!state.is_large(what.bytes) || what.bytes > state.spec.capacity) return false;
  if (!state.spec.in_place && what.bytes > state.into.bytes) return false;
  if (state.moved == 0) state.incoming = {nullptr, what.bytes, what.tally, false};
  return what.bytes == state.incoming.bytes && about.bytes <= what.bytes - state.moved;
}

std::byte* net_endpoint::target(const frame& about) {
  const link_id link = links_.find(about.instance, reading_from_, false, about.index);
  if (link == k_no_link || !is_awaited(link, about.value)) return nullptr;
  return links_[link].target_of(about.value) + links_[link].moved;
}

void net_endpoint::moved(const frame& about, std::uint64_t bytes) {
  const link_id link = links_.find(about.instance, reading_from_, false, about.index);
  if (link != k_no_link && is_awaited(link, about.value)) links_[link].moved += bytes;
}

bool net_endpoint::end(const frame& about) {
  const link_id link = links_.find(about.instance, reading_from_, false, about.index);
  if (link == k_no_link || !is_awaited(link, about.value)) return true;
  net_link& state = links_[link];
  const bool is_whole = std::exchange(state.moved, 0) == state.incoming.bytes;
  if (about.kind == frame_kind::broken) return true;
  if (!is_whole) return false;
  state.incoming.data = state.target_of(about.value);
  if (has_arrived(link)) awaited_.satisfy(link);
  return true;
}

// --- completions -----------------------------------------------------------------------------------------------

/// Called when a link begins to wait. Notes that the next bytes will probably come from the peer of the link.
void net_endpoint::expect(const net_link& state) {
  connection* const from = open_connection_to(state.spec.peer);
  if (from == nullptr || state.spec.capacity > k_most_direct_bytes)
    expected_ = {};
  else if (from != expected_[0])
    expected_ = {from, expected_[0]};
}

// Reads from a peer whose bytes are expected. While few links wait, this attempt is faster than epoll_wait(), which
// finds all sockets that have bytes. Every fourth poll, and every poll before a sleep, still calls epoll_wait(). So
// this function returns false if the caller must call epoll_wait() now. This rank's own messages are written first,
// because peers wait for them.
bool net_endpoint::read_expected() {
  if (awaited_.waiting() > 2 || health_ != status::ok || ++looks_ % 4 == 0 || has_sleeper(bell_)) return false;
  write_all();
  connection* const from = expected_[expected_[1] == nullptr ? 0 : looks_ % 2];
  if (health_ != status::ok || from == nullptr || from->is_lost || from->has_ended[control]) return false;
  do {
    (void)read_control(*from);
  } while (has_decrypted(*from, control));
  verify_suspects();
  write_all();
  return true;
}

std::size_t net_endpoint::poll(std::span<completion> out) {
  if (boards_.is_awaiting())
    (void)boards_.advance();
  else if (awaited_.due() <= out.size() && !read_expected())
    pump();
  set_moving(moved_ >= k_reported_bytes);
  if (is_moving()) moved_ = 0;
  return awaited_.take(out);
}

}  // namespace lsched
