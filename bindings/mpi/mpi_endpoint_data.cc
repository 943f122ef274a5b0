// The data path of mpi_endpoint.
#include <algorithm>
#include <cstring>
#include <utility>

#include "bindings/mpi/mpi_endpoint.h"

namespace lsched {

namespace {

using namespace mpi_edge;
using task = mpi_requests::task;
using wait = mpi_link::wait;
using listening = enum mpi_stream::listening;

}  // namespace

// --- data path: payload out --------------------------------------------------------------------------------

bool mpi_endpoint::can_transmit(const mpi_link& state, round_no round) const {
  if (state.is_bounce_busy[round % 2]) return false;
  return !state.credits || round <= 2 || state.value >= round - 2;
}

bool mpi_endpoint::send(link_id link, round_no round, const message& payload) {
  if (can_transmit(links_[link], round)) return transmit(link, round, payload);
  links_[link].outgoing = payload;
  awaited_.await(link, wait::turn, round);
  return false;
}

// Returns true if the source buffer may be reused at once.
bool mpi_endpoint::transmit(link_id link, round_no round, const message& payload) {
  if (health_ != status::ok) return false;
  mpi_link& state = links_[link];
  const std::uint64_t bytes = payload.null ? 0 : payload.bytes;
  const bool is_small = bytes <= k_bounce_bytes;
  const header head{round, bytes, payload.tally, payload.null ? 1u : 0u, state.instance, {}};
  std::byte* bounce = state.bounce[round % 2];
  std::memcpy(bounce, &head, sizeof head);
  if (is_small && bytes > 0) std::memcpy(bounce + sizeof head, payload.data, bytes);

  MPI_Request request = MPI_REQUEST_NULL;
  const int length = static_cast<int>(sizeof head + (is_small ? bytes : 0));
  if (!succeeded(MPI_Isend(bounce, length, MPI_BYTE, state.spec.peer, state.tag, comm_, &request))) return false;
  ++links_.stream_of(link).sent;
  int is_done = 0;  // usually 1 for a short message
  if (!succeeded(MPI_Test(&request, &is_done, MPI_STATUS_IGNORE))) return false;
  if (is_done == 0) add_request(request, {round % 2 == 0 ? task::bounce_even : task::bounce_odd, link});
  state.is_bounce_busy[round % 2] = is_done == 0;
  if (is_small) return true;
  state.outgoing = payload;
  state.moved = 0;
  awaited_.await(link, wait::chunks, round);
  post_chunk_out(link);
  return false;
}

void mpi_endpoint::resume(link_id link) {
  mpi_link& state = links_[link];
  if (state.wait_for != wait::turn || state.is_due || !can_transmit(state, state.round)) return;
  if (transmit(link, state.round, state.outgoing)) awaited_.satisfy(link);
}

void mpi_endpoint::post_chunk_out(link_id link) {
  mpi_link& state = links_[link];
  const std::uint64_t bytes = std::min(limits_.chunk_bytes, state.outgoing.bytes - state.moved);
  MPI_Request request = MPI_REQUEST_NULL;
  if (!succeeded(MPI_Isend(state.outgoing.data + state.moved, static_cast<int>(bytes), MPI_BYTE, state.spec.peer,
                           state.tag, comm_, &request)))
    return;
  state.moved += bytes;
  ++links_.stream_of(link).sent;
  add_request(request, {task::chunk_out, link});
}

// --- data path: payload in ---------------------------------------------------------------------------------

bool mpi_endpoint::receive(link_id link, round_no round, message_target into, arrival& out) {
  mpi_link& state = links_[link];
  state.into = into;
  awaited_.await(link, wait::message, round);
  if (health_ != status::ok) return false;
  MPI_Request request = MPI_REQUEST_NULL;
  const int room = static_cast<int>(bounce_bytes(state.spec));
  if (!succeeded(MPI_Irecv(state.bounce[0], room, MPI_BYTE, state.spec.peer, state.tag, comm_, &request))) return false;

  int is_here = 0;
  int bytes = 0;
  MPI_Status news;
  if (!succeeded(MPI_Test(&request, &is_here, &news))) return false;
  if (is_here == 0) {
    add_request(request, {task::header_in, link});
    return false;
  }
  ++links_.stream_of(link).taken;
  if (!succeeded(MPI_Get_count(&news, MPI_BYTE, &bytes)) || !landed(link, bytes)) return false;
  out = state.incoming;
  awaited_.forget(link);
  return true;
}

// Handles a header that has arrived. Returns true if the receive is complete: the payload has arrived, too, or fetch()
// will receive the payload. Returns false if the payload is in flight, or if the header is invalid. An invalid header
// sets `health_`.
bool mpi_endpoint::landed(link_id link, int bytes) {
  mpi_link& state = links_[link];
  header head;
  std::memcpy(&head, state.bounce[0], sizeof head);
  const bool is_small = head.bytes <= k_bounce_bytes;
  const std::uint64_t expected = sizeof head + (is_small ? head.bytes : 0);
  if (static_cast<std::uint64_t>(bytes) != expected || head.instance != state.own_instance ||
      head.round != state.round || head.bytes > state.spec.capacity) {
    health_ = status::transport;
    return false;
  }
  state.incoming = {state.into.memory, head.bytes, head.tally, head.null != 0};
  if (state.spec.announced) {
    state.incoming.data = nullptr;
    return true;
  }
  return bring(link);
}

// Receives the payload that follows a header. Returns true if the payload has arrived. A payload that exceeds its
// target is received and dropped.
bool mpi_endpoint::bring(link_id link) {
  mpi_link& state = links_[link];
  const std::uint64_t bytes = state.incoming.bytes;
  const bool fits = state.spec.in_place || bytes <= state.into.bytes;
  state.incoming.data = fits ? state.into.memory : nullptr;
  if (bytes <= k_bounce_bytes) {
    std::byte* const payload = state.bounce[0] + sizeof(header);
    if (state.spec.in_place)
      state.incoming.data = payload;
    else if (fits && bytes > 0)
      std::memcpy(state.into.memory, payload, bytes);
    return has_arrived(link);
  }
  if (state.spec.in_place) state.incoming.data = state.into.memory = state.landing;
  if (!fits && dropped_ == nullptr) dropped_.reset(allocate_aligned(limits_.chunk_bytes));
  if (!fits && dropped_ == nullptr) {
    health_ = status::no_memory;
    return false;
  }
  state.moved = 0;
  post_chunk_in(link);
  return false;
}

bool mpi_endpoint::fetch(link_id link, round_no round, message_target into, arrival& out) {
  mpi_link& state = links_[link];
  state.into = into;
  awaited_.await(link, wait::message, round);
  if (!bring(link)) return false;
  out = state.incoming;
  awaited_.forget(link);
  return true;
}

void mpi_endpoint::post_chunk_in(link_id link) {
  mpi_link& state = links_[link];
  const std::uint64_t bytes = std::min(limits_.chunk_bytes, state.incoming.bytes - state.moved);
  MPI_Request request = MPI_REQUEST_NULL;
  std::byte* const target = state.incoming.data == nullptr ? dropped_.get() : state.into.memory + state.moved;
  if (!succeeded(MPI_Irecv(target, static_cast<int>(bytes), MPI_BYTE, state.spec.peer, state.tag, comm_, &request)))
    return;
  state.moved += bytes;
  add_request(request, {task::chunk_in, link});
}

// Handles a chunk of a large payload. Posts a receive for the next chunk, if there is one. Returns true for the last
// chunk. A chunk of wrong size sets `health_`.
bool mpi_endpoint::chunk_landed(link_id link, int bytes) {
  mpi_link& state = links_[link];
  if (static_cast<std::uint64_t>(bytes) != (state.moved - 1) % limits_.chunk_bytes + 1) {
    health_ = status::transport;
    return false;
  }
  if (state.moved == state.incoming.bytes) return has_arrived(link);
  post_chunk_in(link);
  return false;
}

// Releases the message unless the payload is read in place. Always returns true.
bool mpi_endpoint::has_arrived(link_id link) {
  const mpi_link& state = links_[link];
  if (state.incoming.null || !state.spec.in_place) release(link, state.round);
  return true;
}

void mpi_endpoint::end_edge(link_id link, round_no last) {
  mpi_stream& to = links_.stream_of(link);
  to.put({links_[link].instance, mpi_stream::k_left, last});
  send_control(to);
}

void mpi_endpoint::release(link_id link, round_no round) {
  if (links_[link].credits) raise(link, round);
}

// --- data path: signals and credits ------------------------------------------------------------------------

void mpi_endpoint::signal(link_id link, round_no round) { raise(link, round); }

// A new value replaces a value that has not been sent yet.
void mpi_endpoint::raise(link_id link, std::uint64_t value) {
  mpi_link& state = links_[link];
  if (value <= state.value) return;
  state.value = value;
  mpi_stream& to = links_.stream_of(link);
  state.pending_at = to.put({state.instance, state.control_index, value}, state.pending_at);
  send_control(to);
}

void mpi_endpoint::send_control(mpi_stream& to) {
  if (to.is_sending || health_ != status::ok) return;
  const std::size_t count = to.next_batch();
  if (count == 0) return;
  MPI_Request request = MPI_REQUEST_NULL;
  if (!succeeded(MPI_Issend(to.outgoing.data(), static_cast<int>(count * sizeof(mpi_stream::control_record)), MPI_BYTE,
                            to.peer, k_control_tag, comm_, &request)))
    return;
  to.is_sending = true;
  add_request(request, {task::control_out, static_cast<std::uint32_t>(to.peer)});
}

void mpi_endpoint::receive_control(mpi_stream& from) {
  if (health_ != status::ok) return;
  from.listening = listening::posted;
  MPI_Request request = MPI_REQUEST_NULL;
  if (!succeeded(MPI_Irecv(from.incoming.data(), static_cast<int>(sizeof from.incoming), MPI_BYTE, from.peer,
                           k_control_tag, comm_, &request)))
    return;
  ++idle_receives_;
  add_request(request, {task::control_in, static_cast<std::uint32_t>(from.peer)});
}

void mpi_endpoint::take_control(mpi_stream& from, int bytes) {
  --idle_receives_;
  const auto count = static_cast<std::size_t>(bytes) / sizeof(mpi_stream::control_record);
  for (std::size_t i = 0; i < count; ++i) take_control(from, from.incoming[i]);
  if (from.listening == listening::posted) receive_control(from);
}

// Handles a control record. A record for a detached instance is a late credit and is ignored.
void mpi_endpoint::take_control(mpi_stream& from, const mpi_stream::control_record& news) {
  if (news.index == mpi_stream::k_last) {
    from.listening = listening::ended;
    from.announced = news.value;
    return;
  }
  if (news.index == mpi_stream::k_cancelled) return answer_cancellation(from, news);
  if (news.index == mpi_stream::k_left)
    return report_cancelled({news.instance, {from.peer, status::peer}, true, news.value});
  if (news.index == mpi_stream::k_answered) {
    for (const link_id link : links_.of(news.instance))
      if (links_[link].spec.peer == from.peer) links_[link].is_answered = true;
    return;
  }
  const auto found = from.receivers.find(news.instance);
  if (found == from.receivers.end() || news.index >= found->second.size()) return;
  const link_id link = found->second[news.index];
  mpi_link& state = links_[link];
  state.value = std::max(state.value, news.value);
  if (state.spec.outgoing)
    resume(link);
  else if (state.wait_for == wait::signal && state.value >= state.round)
    awaited_.satisfy(link);
}

bool mpi_endpoint::arm(link_id link, round_no round) {
  awaited_.forget(link);
  if (links_[link].value >= round) return true;
  awaited_.await(link, wait::signal, round);
  return false;
}

void mpi_endpoint::disarm(link_id link) {
  if (links_[link].wait_for == wait::signal) awaited_.forget(link);
}

// --- data path: completions --------------------------------------------------------------------------------

std::size_t mpi_endpoint::poll(std::span<completion> out) {
  if (is_board_busy()) (void)boards_.advance();
  if (awaited_.due() <= out.size()) sweep();
  return awaited_.take(out);
}

void mpi_endpoint::add_request(MPI_Request request, mpi_requests::owner owner) {
  requests_.add(request, owner);  // does not allocate, because attach() has reserved the capacity
  if (owner.task >= task::control_out) return;
  ++links_[owner.target].in_flight;
  if (uses_callers_memory(owner)) ++links_[owner.target].chunks;
}

bool mpi_endpoint::uses_callers_memory(const mpi_requests::owner& owner) const {
  const mpi_link& state = links_[owner.target];
  return owner.task == task::chunk_out || (owner.task == task::chunk_in && state.landing == nullptr);
}

// Tests requests, a window at a time, until a link is due (an awaited event has happened), or all requests have been
// tested. The next sweep continues after that window, so that no request is starved.
void mpi_endpoint::sweep() {
  for (std::size_t looked = 0; looked < requests_.size() && health_ == status::ok;) {
    std::span<const mpi_requests::event> news;
    if (!succeeded(requests_.test_next(news, looked))) return;
    for (const mpi_requests::event& each : news) handle(each);
    if (awaited_.due() != 0) return;
  }
}

void mpi_endpoint::handle(const mpi_requests::event& news) {
  const auto [job, target] = news.owner;
  if (job >= task::control_out) {
    if (job == task::orphan_in) return;
    mpi_stream& with = links_.stream_to(static_cast<rank>(target));
    if (job == task::control_in) return take_control(with, news.bytes);
    with.is_sending = false;
    return send_control(with);
  }
  mpi_link& state = links_[target];
  --state.in_flight;
  if (uses_callers_memory(news.owner)) --state.chunks;
  if (news.is_cancelled) return;
  if (job == task::header_in || job == task::chunk_in) ++links_.stream_of(target).taken;
  if (!state.is_live) return;
  switch (job) {
    case task::bounce_even:
    case task::bounce_odd: state.is_bounce_busy[job == task::bounce_odd ? 1 : 0] = false; return resume(target);
    case task::chunk_out:
      if (state.moved == state.outgoing.bytes) return awaited_.satisfy(target);
      return post_chunk_out(target);
    case task::header_in:
      if (landed(target, news.bytes)) awaited_.satisfy(target);
      return;
    case task::chunk_in:
      if (chunk_landed(target, news.bytes)) awaited_.satisfy(target);
      return;
    default: return;
  }
}

}  // namespace lsched
