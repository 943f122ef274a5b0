#include "bindings/mpi/mpi_endpoint.h"

#include <sched.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <thread>
#include <utility>

#include "bindings/mpi/mpi_calls.h"

namespace lsched {

namespace {

using namespace mpi_edge;
using task = mpi_requests::task;
using listening = enum mpi_stream::listening;

}  // namespace

// --- open and close -----------------------------------------------------------------------------------------

// Before MPI_Comm_dup, every check has the same result on all ranks. After MPI_Comm_dup, the ranks agree on a result by
// messages.
result<std::unique_ptr<mpi_endpoint>> mpi_endpoint::open(MPI_Comm comm, const mpi_limits& limits) {
  if (auto why = validate_world(comm)) return *why;
  MPI_Comm ours = MPI_COMM_NULL;
  if (MPI_Comm_dup(comm, &ours) != MPI_SUCCESS) return mpi_failure("MPI_Comm_dup");

  int self = 0, size = 1, level = 0;
  const bool answers = MPI_Comm_set_errhandler(ours, MPI_ERRORS_RETURN) == MPI_SUCCESS &&
                       MPI_Comm_rank(ours, &self) == MPI_SUCCESS && MPI_Comm_size(ours, &size) == MPI_SUCCESS &&
                       MPI_Query_thread(&level) == MPI_SUCCESS;
  mpi_limits bounded = limits;
  bounded.highest_tag = highest_tag_of(ours, limits.highest_tag);
  std::unique_ptr<mpi_endpoint> made(new mpi_endpoint(ours, {self, size}, bounded, level == MPI_THREAD_MULTIPLE));

  std::optional<failure> why;
  if (!answers)
    why = failure{status::transport,
                  "MPI failed to return rank, size or thread level of the communicator: pass a valid communicator"};
  if (limits.chunk_bytes == 0 || limits.chunk_bytes > static_cast<std::uint64_t>(std::numeric_limits<int>::max()))
    why = failure{status::argument, "chunk_bytes is " + std::to_string(limits.chunk_bytes) +
                                        ": an MPI message has between 1 and 2^31-1 bytes"};
  if (auto agreed = agree(ours, why)) return *agreed;
  return made;
}

mpi_endpoint::mpi_endpoint(MPI_Comm comm, const lsched::world& place, const mpi_limits& limits, bool is_thread_multiple)
    : endpoint(place, "mpi", {.liveness = this, .has_cancellation_points = true}),
      comm_(comm),
      limits_(limits),
      is_thread_multiple_(is_thread_multiple),
      links_(place.size, k_first_payload_tag, limits.highest_tag),
      carrier_({.comm = comm,
                .tag = k_board_tag,
                .begin_with = [this](rank peer) { begin_with(peer); },
                .note_sent = [this](rank peer) { ++links_.stream_to(peer).sent; },
                .note_taken = [this](rank peer) { ++links_.stream_to(peer).taken; },
                .succeeded = [this](int code) { return succeeded(code); },
                .health = [this] { return health_; },
                .take = [this](rank from, std::span<const std::byte> bytes) { boards_.take(from, bytes); }}),
      boards_(place.self, carrier_) {}

mpi_endpoint::~mpi_endpoint() { close(); }

void mpi_endpoint::close() {
  if (std::exchange(is_closed_, true)) return;
  if (is_mpi_running()) at_finalize_.remove();
  if (is_mpi_running() && health_ == status::ok && drain() && !boards_.has_unanswered())
    (void)succeeded(MPI_Comm_free(&comm_));
  else
    leak();
}

bool mpi_endpoint::close_at_finalize(finalize_hook::engine_owner exclusively) {
  return at_finalize_.install(std::move(exclusively), [this] { end_with_mpi(); });
}

// If all ranks share memory, there are no streams to peers, and the world continues without MPI.
void mpi_endpoint::end_with_mpi() {
  const bool has_talked = std::ranges::any_of(links_.streams(), [](const auto& with) { return with != nullptr; });
  close();
  if (has_talked && health_ == status::ok) health_ = status::state;
}

// Waits until no message is in flight. Returns false if the time limit has passed or MPI has failed.
bool mpi_endpoint::drain() {
  using clock = std::chrono::steady_clock;
  announce_end();
  (void)succeeded(requests_.cancel_receives([this](link_id link) { return !links_[link].is_live; }));
  const clock::time_point deadline = clock::now() + limits_.shutdown;
  for (int i = 0; health_ == status::ok; ++i) {
    sweep();
    receive_orphans();
    carrier_.advance_transfers();
    if (is_drained()) return true;
    if (clock::now() >= deadline) return false;
    if (i < 100)
      sched_yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return false;
}

// Sends the last control record to each peer. No message is sent afterwards, so the count in the record is final.
void mpi_endpoint::announce_end() {
  for (link_id link = 0; link < links_.size(); ++link) {
    awaited_.forget(link);
    links_[link].is_live = false;
  }
  for (const auto& with : links_.streams()) {
    if (with == nullptr || with->listening == listening::not_yet) continue;
    with->put({0, mpi_stream::k_last, with->sent});
    send_control(*with);
  }
}

void mpi_endpoint::receive_orphans() {
  for (const auto& from : links_.streams()) {
    if (from == nullptr || from->listening != listening::ended || from->taken >= from->announced ||
        health_ != status::ok)
      continue;
    int is_here = 0;
    int bytes = 0;
    MPI_Status found;
    if (!succeeded(MPI_Iprobe(from->peer, MPI_ANY_TAG, comm_, &is_here, &found)) || is_here == 0 ||
        !succeeded(MPI_Get_count(&found, MPI_BYTE, &bytes)))
      continue;
    orphans_.emplace_back(allocate_aligned(static_cast<std::uint64_t>(bytes)));
    if (orphans_.back() == nullptr) {
      health_ = status::no_memory;
      return;
    }
    MPI_Request request = MPI_REQUEST_NULL;
    if (!succeeded(MPI_Irecv(orphans_.back().get(), bytes, MPI_BYTE, from->peer, found.MPI_TAG, comm_, &request)))
      return;
    ++from->taken;
    add_request(request, {task::orphan_in, static_cast<std::uint32_t>(from->peer)});
  }
}

bool mpi_endpoint::is_drained() const {
  const auto is_at_odds = [](const auto& with) {
    return with != nullptr && (with->listening == listening::posted || with->taken < with->announced);
  };
  return requests_.empty() && !carrier_.has_transfers() && std::ranges::none_of(links_.streams(), is_at_odds);
}

// Leaks the communicator and all memory that MPI may still access. Called if a peer died or never closed its endpoint,
// or if MPI is finalised. Cancelling the requests would not suffice, because a message may already be in flight. Even
// after the leak, MPI may write the rest of a large message to the caller's buffer.
void mpi_endpoint::leak() {
  links_.abandon();
  for (mpi_edge::memory& held : orphans_) (void)held.release();
  (void)dropped_.release();
  carrier_.abandon();
  requests_.abandon();
}

// Returns true if `code` is MPI_SUCCESS. Any other code is recorded as a failure, after which the endpoint makes no
// progress. The driver reads health() and ends all instances.
bool mpi_endpoint::succeeded(int code) {
  if (code == MPI_SUCCESS) return true;
  health_ = status::transport;
  return false;
}

// --- commit ------------------------------------------------------------------------------------------------

// Starts the control stream with a peer. Afterwards, messages to and from the peer may be in flight, and the peer will
// send a last record.
void mpi_endpoint::begin_with(rank peer) {
  mpi_stream& with = links_.stream_to(peer);
  with.reserve(2);
  requests_.reserve(links_.most_requests());
  if (with.listening == listening::not_yet) receive_control(with);
}

result<std::unique_ptr<board>> mpi_endpoint::open_board(std::size_t) { return std::unique_ptr<board>(boards_.open()); }

std::unique_ptr<board> mpi_endpoint::open_home_board() { return boards_.open_home(place().size); }

result<std::vector<link_id>> mpi_endpoint::attach(std::uint32_t id, std::span<const rank> members, bool credits,
                                                  std::span<const edge_spec> edges) {
  if (health_ != status::ok)
    return failure{health_, "an earlier call of MPI has failed, so this world cannot be used any more"};
  auto answer = links_.attach(id, members, credits, edges);
  requests_.reserve(links_.most_requests());
  awaited_.reserve(links_.size());
  return answer;
}

// A faster peer may already have sent a message, which MPI keeps until the receive is posted.
status mpi_endpoint::link(std::uint32_t id, std::span<const member_address> all) {
  if (!links_.is_unlinked(id) || all.size() != links_.members_of(id)) return status::internal;
  links_.link(id, all);
  for (const link_id link : links_.link_to_each_peer(id))
    if (mpi_stream& from = links_.stream_of(link); from.listening == listening::not_yet) receive_control(from);
  if (links_.end_of(id)) pass_on_cancellation(id);
  return health_;
}

void mpi_endpoint::detach(std::uint32_t id) {
  const auto is_live = [this](link_id link) { return links_[link].is_live; };
  const bool was_abandoned = !std::ranges::all_of(links_.of(id), is_live);
  for (const link_id link : links_.of(id)) awaited_.forget(link);
  links_.detach(id, !was_abandoned);
}

// --- giving up ---------------------------------------------------------------------------------------------

//     sender whose instance ends              receiver
//       E1 k_cancelled               ───►       E2 closes its links, so no message completes a receive
//       E4 the outcome               ◄───       E3 k_answered
//
// Between E1 and E3, the receiver may end its round with a message that MPI still reads from the sender's memory. After
// E3, MPI may continue to read this memory, but no rank uses the data.
void mpi_endpoint::cancel(std::uint32_t id, const end_reason& reason) {
  if (!links_.end(id, reason)) return;
  report_cancelled({id, reason});
  kill_links(id);
  if (!links_.is_unlinked(id)) pass_on_cancellation(id);
}

void mpi_endpoint::kill_links(std::uint32_t id) {
  for (const link_id link : links_.of(id)) {
    awaited_.forget(link);
    links_[link].is_live = false;
  }
}

void mpi_endpoint::pass_on_cancellation(std::uint32_t id) {
  for (const link_id link : links_.link_to_each_peer(id)) {
    mpi_stream& to = links_.stream_of(link);
    to.put({links_[link].instance, mpi_stream::k_cancelled, mpi_stream::pack(*links_.end_of(id), id)});
    send_control(to);
  }
}

// A closed endpoint does not reply, because its peers do not wait for replies any more.
void mpi_endpoint::answer_cancellation(mpi_stream& from, const mpi_stream::control_record& news) {
  cancel(news.instance, mpi_stream::reason_in(news.value));
  if (is_closed_) return;
  from.put({static_cast<std::uint32_t>(news.value >> 32), mpi_stream::k_answered, 0});
  send_control(from);
}

// If a large payload is in flight, cancels the instance, so that peers stop using the caller's memory. Small payloads
// need no action, because they were copied.
void mpi_endpoint::close_to_readers(std::uint32_t id, const end_reason& reason) {
  const auto is_sending = [this](link_id link) { return links_[link].spec.outgoing && links_[link].chunks != 0; };
  if (std::ranges::any_of(links_.of(id), is_sending)) cancel(id, reason);
}

// Cancels the receives, except those whose message is already in flight. Messages that arrive later become orphans
// (received by close()). MPI completes the sends that are in flight.
void mpi_endpoint::abandon(std::uint32_t id) {
  kill_links(id);
  if (health_ == status::ok)
    (void)succeeded(requests_.cancel_receives([this](link_id link) { return !links_[link].is_live; }));
}

status mpi_endpoint::check_readers(std::uint32_t id, rank* reader) {
  status answer = status::ok;
  *reader = k_no_rank;
  for (const link_id link : links_.of(id)) {
    const mpi_link& state = links_[link];
    if (state.chunks == 0) continue;
    answer = status::unsupported;
    const bool is_unused = state.spec.outgoing && (state.is_answered || has_ended(state.spec.peer));
    if (health_ == status::ok && !is_unused) *reader = state.spec.peer;  // a cancelled receive ends soon
  }
  return answer;
}

/// Returns true if the last record of the peer has arrived.
bool mpi_endpoint::has_ended(rank peer) const {
  return links_.streams()[static_cast<std::size_t>(peer)]->listening == listening::ended;
}

}  // namespace lsched
