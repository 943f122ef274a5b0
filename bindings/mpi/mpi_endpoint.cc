#include "bindings/mpi/mpi_endpoint.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>

#include "bindings/mpi/node_segment.h"
#include "libsched/schedule/draw.h"

namespace lsched {
namespace {

constexpr int k_control_tag = 0;
constexpr std::uint32_t k_goodbye = ~std::uint32_t{0};  // as index: no instance has that many edges
constexpr std::uint64_t k_most_bytes = std::uint64_t{1} << 47;

struct header {
  std::uint64_t round;
  std::uint64_t bytes;
  census tally;
  std::uint32_t null;
  std::uint32_t unused[7];
};
static_assert(sizeof(header) == 64);

constexpr std::uint64_t bounce_bytes(const edge_spec& edge) {
  return sizeof(header) + (std::min(edge.capacity, mpi_endpoint::k_bounce_bytes) + 63) / 64 * 64;
}

constexpr bool needs_landing(const edge_spec& edge) {
  return edge.in_place && edge.capacity > mpi_endpoint::k_bounce_bytes;
}

/// Bytes that MPI reads or writes on behalf of an edge.
constexpr std::uint64_t own_bytes(const edge_spec& edge) {
  if (edge.signal) return 0;
  if (edge.outgoing) return 2 * bounce_bytes(edge);
  return bounce_bytes(edge) + (needs_landing(edge) ? (edge.capacity + 63) / 64 * 64 : 0);
}

/// Both ends of a pair enumerate its edges in this order, signals first.
constexpr auto order_of(const edge_spec& edge) { return std::tuple(edge.peer, !edge.signal, edge.tag, edge.outgoing); }

/// Whether this rank speaks on the control stream for the edge: its signals out, and credits for payload in.
constexpr bool speaks_for(const edge_spec& edge, bool credits) {
  return edge.signal ? edge.outgoing : credits && !edge.outgoing;
}

constexpr bool hears_for(const edge_spec& edge, bool credits) {
  return edge.signal ? !edge.outgoing : credits && edge.outgoing;
}

constexpr std::size_t as_index(rank r) { return static_cast<std::size_t>(r); }

std::byte* allocate_aligned(std::uint64_t bytes) {
  if (bytes > k_most_bytes) return nullptr;
  return static_cast<std::byte*>(std::aligned_alloc(64, (std::max<std::uint64_t>(bytes, 1) + 63) / 64 * 64));
}

int highest_tag_of(MPI_Comm comm, int wished) {
  int* bound = nullptr;
  int is_set = 0;
  if (MPI_Comm_get_attr(comm, MPI_TAG_UB, &bound, &is_set) != MPI_SUCCESS || is_set == 0) return 32767;
  return wished > 0 ? std::min(wished, *bound) : *bound;
}

bool is_mpi_running() {
  int is_initialized = 0;
  int is_finalized = 0;
  return MPI_Initialized(&is_initialized) == MPI_SUCCESS && is_initialized != 0 &&
         MPI_Finalized(&is_finalized) == MPI_SUCCESS && is_finalized == 0;
}

}  // namespace

// --- birth and death ---------------------------------------------------------------------------------------

// Up to the duplicate, all ranks come to the same answer by themselves; from there on they agree on one.
result<std::unique_ptr<mpi_endpoint>> mpi_endpoint::open(MPI_Comm comm, const mpi_limits& limits) {
  if (!is_mpi_running()) return failure{status::state, "MPI is not initialised, or finalised already"};
  if (comm == MPI_COMM_NULL) return failure{status::argument, "MPI_COMM_NULL has no ranks"};
  int is_inter = 0;
  if (MPI_Comm_test_inter(comm, &is_inter) != MPI_SUCCESS || is_inter != 0)
    return failure{status::argument, "an intercommunicator is not a world"};
  MPI_Comm ours = MPI_COMM_NULL;
  if (MPI_Comm_dup(comm, &ours) != MPI_SUCCESS) return failure{status::transport, "MPI_Comm_dup failed"};

  int self = 0;
  int size = 1;
  int level = 0;
  const bool answers = MPI_Comm_set_errhandler(ours, MPI_ERRORS_RETURN) == MPI_SUCCESS &&
                       MPI_Comm_rank(ours, &self) == MPI_SUCCESS && MPI_Comm_size(ours, &size) == MPI_SUCCESS &&
                       MPI_Query_thread(&level) == MPI_SUCCESS;
  mpi_limits bounded = limits;
  bounded.highest_tag = highest_tag_of(ours, limits.highest_tag);
  std::unique_ptr<mpi_endpoint> made(new mpi_endpoint(ours, self, size, bounded, level == MPI_THREAD_MULTIPLE));
  made->records_.reset(allocate_aligned(k_entry_bytes * (as_index(size) + 1)));

  std::optional<failure> why;
  if (!answers) why = failure{status::transport, "MPI does not answer questions about a communicator"};
  if (limits.chunk_bytes == 0 || limits.chunk_bytes > static_cast<std::uint64_t>(std::numeric_limits<int>::max()))
    why = failure{status::argument, "MPI messages have between 1 and 2^31-1 bytes"};
  if (made->records_ == nullptr) why = failure{status::no_memory, "no memory for the records of all ranks"};
  const int mine = static_cast<int>(why ? why->code : status::ok);
  int worst = mine;
  MPI_Request request = MPI_REQUEST_NULL;
  if (MPI_Iallreduce(&mine, &worst, 1, MPI_INT, MPI_MIN, ours, &request) != MPI_SUCCESS ||
      await_request(request) != MPI_SUCCESS)
    return failure{status::transport, "MPI_Iallreduce failed"};
  if (worst == mine && why) return *why;
  if (worst != 0) return failure{static_cast<status>(worst), "another rank cannot open its endpoint"};
  return made;
}

mpi_endpoint::mpi_endpoint(MPI_Comm comm, rank self, rank size, const mpi_limits& limits, bool is_thread_multiple)
    : comm_(comm), self_(self), limits_(limits), is_thread_multiple_(is_thread_multiple), streams_(as_index(size)) {}

mpi_endpoint::~mpi_endpoint() { close(); }

void mpi_endpoint::close() {
  if (std::exchange(is_closed_, true)) return;
  if (is_mpi_running() && health_ == status::ok && say_goodbye())
    (void)succeeded(MPI_Comm_free(&comm_));
  else
    leak();
}

// Whether all is quiet, in time.
bool mpi_endpoint::say_goodbye() {
  using clock = std::chrono::steady_clock;
  part();
  const clock::time_point deadline = clock::now() + limits_.farewell;
  for (int i = 0; health_ == status::ok; ++i) {
    sweep();
    take_leftovers();
    int is_done = 0;
    if (exchange_ != MPI_REQUEST_NULL) (void)succeeded(MPI_Test(&exchange_, &is_done, MPI_STATUS_IGNORE));
    if (is_quiet()) return true;
    if (clock::now() >= deadline) return false;
    if (i < 100)
      sched_yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return false;
}

// From here on no payload is sent, so the count is final.
void mpi_endpoint::part() {
  for (link_id link = 0; link < links_.size(); ++link) {
    forget(link);
    links_[link].is_live = false;
  }
  for (const auto& with : streams_) {
    if (with == nullptr) continue;
    if (with->expects && !with->hears && !with->has_parted) {
      with->hears = true;
      listen(*with);
    }
    if (!with->speaks && !with->delivers) continue;
    with->pending.push_back({0, k_goodbye, with->sent});
    speak(*with);
  }
}

void mpi_endpoint::take_leftovers() {
  for (const auto& from : streams_) {
    if (from == nullptr || !from->has_parted || from->taken >= from->promised || health_ != status::ok) continue;
    int is_here = 0;
    int bytes = 0;
    MPI_Status what;
    if (!succeeded(MPI_Iprobe(from->peer, MPI_ANY_TAG, comm_, &is_here, &what)) || is_here == 0 ||
        !succeeded(MPI_Get_count(&what, MPI_BYTE, &bytes)))
      continue;
    leftovers_.emplace_back(allocate_aligned(static_cast<std::uint64_t>(bytes)));
    if (leftovers_.back() == nullptr) {
      health_ = status::no_memory;
      return;
    }
    MPI_Request request = MPI_REQUEST_NULL;
    if (!succeeded(MPI_Irecv(leftovers_.back().get(), bytes, MPI_BYTE, from->peer, what.MPI_TAG, comm_, &request)))
      return;
    ++from->taken;
    add_request(request, {task::leftover_in, static_cast<std::uint32_t>(from->peer)});
  }
}

bool mpi_endpoint::is_quiet() const {
  const auto is_at_odds = [](const auto& with) {
    return with != nullptr && (with->hears || with->taken < with->promised);
  };
  return requests_.empty() && exchange_ == MPI_REQUEST_NULL && std::ranges::none_of(streams_, is_at_odds);
}

// A peer died or never closed, or MPI has gone. MPI may still write to whatever was posted, and cancelling is
// no way out (a cancelled receive may complete as well); so this memory, and the communicator, stay for good.
// The same goes for the target of a large message that was under way: who knows it should not use it again.
void mpi_endpoint::leak() {
  for (auto& each : streams_) (void)each.release();
  for (auto& [id, held] : blocks_) (void)held.bytes.release();
  for (block& held : retired_) (void)held.bytes.release();
  for (memory& held : leftovers_) (void)held.release();
  (void)records_.release();
  requests_.clear();
  owners_.clear();
}

std::byte* mpi_endpoint::allocate(std::size_t bytes) { return allocate_aligned(bytes); }

// The first failure stays. Everything waits from then on; the driver asks health() and ends it.
bool mpi_endpoint::succeeded(int code) {
  if (code == MPI_SUCCESS) return true;
  health_ = status::transport;
  return false;
}

// --- commit ------------------------------------------------------------------------------------------------

result<std::vector<link_id>> mpi_endpoint::attach(std::uint32_t id, bool credits, std::span<const edge_spec> edges) {
  if (health_ != status::ok) return failure{health_, "MPI has failed"};
  if (blocks_.contains(id)) return failure{status::state, "instance " + std::to_string(id) + " is attached already"};
  if (auto why = objection(edges)) return *why;
  reap();

  block held;
  for (const edge_spec& edge : edges) held.links.push_back(add_link(id, credits, edge));
  const bool has_tags = reserve_tags(held);
  const bool has_memory = has_tags && reserve_memory(held);
  enumerate_control(id, held);
  reserve_queues();
  std::vector<link_id> answer = held.links;
  blocks_.emplace(id, std::move(held));
  if (has_memory) return answer;
  detach(id);
  if (!has_tags) return failure{status::no_memory, "MPI has no tags left for more schedules between these ranks"};
  return failure{status::no_memory, "no memory left for message buffers"};
}

std::optional<failure> mpi_endpoint::objection(std::span<const edge_spec> edges) const {
  std::vector<edge_spec> ordered(edges.begin(), edges.end());
  const auto is_before = [](const edge_spec& x, const edge_spec& y) { return order_of(x) < order_of(y); };
  const auto is_same = [](const edge_spec& x, const edge_spec& y) { return order_of(x) == order_of(y); };
  for (const edge_spec& edge : edges) {
    if (edge.peer < 0 || as_index(edge.peer) >= streams_.size())
      return failure{status::argument, "an edge leaves the world", edge.peer};
    if (edge.capacity > k_most_bytes / 4) return failure{status::no_memory, "an edge is larger than memory", edge.peer};
  }
  std::sort(ordered.begin(), ordered.end(), is_before);
  const auto twin = std::adjacent_find(ordered.begin(), ordered.end(), is_same);
  if (twin != ordered.end()) return failure{status::argument, "two edges of one tag and direction", twin->peer};
  return std::nullopt;
}

link_id mpi_endpoint::add_link(std::uint32_t id, bool credits, const edge_spec& edge) {
  link_id link = static_cast<link_id>(links_.size());
  if (free_links_.empty()) {
    links_.emplace_back();
  } else {
    link = free_links_.back();
    free_links_.pop_back();
  }
  links_[link] = link_state{};
  links_[link].spec = edge;
  links_[link].instance = id;
  links_[link].credits = credits;
  links_[link].is_live = true;
  (void)stream_to(edge.peer);
  return link;
}

mpi_endpoint::stream& mpi_endpoint::stream_to(rank peer) {
  auto& place = streams_[as_index(peer)];
  if (place == nullptr) {
    place = std::make_unique<stream>();
    place->peer = peer;
    ++known_peers_;
  }
  return *place;
}

bool mpi_endpoint::reserve_memory(block& held) {
  std::uint64_t bytes = 0;
  for (const link_id link : held.links) {
    const std::uint64_t more = own_bytes(links_[link].spec);
    if (more > k_most_bytes - bytes) return false;
    bytes += more;
  }
  held.bytes.reset(allocate_aligned(bytes));
  std::byte* place = held.bytes.get();
  if (place == nullptr) return false;
  for (const link_id link : held.links) {
    link_state& state = links_[link];
    if (!state.spec.signal) {
      state.bounce[0] = place;
      std::byte* second = place + bounce_bytes(state.spec);
      if (state.spec.outgoing) state.bounce[1] = second;
      if (!state.spec.outgoing && needs_landing(state.spec)) state.landing = second;
    }
    place += own_bytes(state.spec);
  }
  return true;
}

// Tags are given out in link(), because only a commit that succeeds does so on both sides; here is only
// counted whether there will be enough. Tags are not used twice: nothing says when the peer is done with one.
bool mpi_endpoint::reserve_tags(const block& held) {
  bool has_enough = true;
  for (const link_id link : held.links) {
    const edge_spec& edge = links_[link].spec;
    if (edge.signal) continue;
    stream& with = stream_to(edge.peer);
    int& reserved = with.reserved_tags[edge.outgoing ? 1 : 0];
    ++reserved;
    if (with.next_tag[edge.outgoing ? 1 : 0] + (reserved - 1) > limits_.highest_tag) has_enough = false;
  }
  return has_enough;
}

void mpi_endpoint::release_tags(const block& held) {
  for (const link_id link : held.links)
    if (const edge_spec& edge = links_[link].spec; !edge.signal)
      --stream_to(edge.peer).reserved_tags[edge.outgoing ? 1 : 0];
}

std::vector<link_id> mpi_endpoint::sorted(const block& held) const {
  std::vector<link_id> ordered = held.links;
  std::sort(ordered.begin(), ordered.end(),
            [this](link_id x, link_id y) { return order_of(links_[x].spec) < order_of(links_[y].spec); });
  return ordered;
}

// Control edges are known by their place among those of one instance and one direction. No message is needed
// for both sides to agree on that, and a record finds its link as soon as this rank has attached.
void mpi_endpoint::enumerate_control(std::uint32_t id, const block& held) {
  std::unordered_map<rank, std::uint32_t> spoken;
  for (const link_id link : sorted(held)) {
    link_state& state = links_[link];
    stream& with = stream_to(state.spec.peer);
    if (speaks_for(state.spec, state.credits)) state.control_index = spoken[state.spec.peer]++;
    if (hears_for(state.spec, state.credits)) with.hearers[id].push_back(link);
  }
  for (const auto& [peer, more] : spoken) {
    // A record may outlive its link in the table, so what is there now is not counted on.
    std::vector<control_record>& pending = stream_to(peer).pending;
    std::size_t speakers = 1;  // goodbye
    for (const link_state& state : links_)
      if (state.is_live && state.spec.peer == peer && speaks_for(state.spec, state.credits)) ++speakers;
    pending.reserve(pending.size() + speakers);
  }
}

void mpi_endpoint::reserve_queues() {
  const std::size_t most = 3 * links_.size() + 2 * known_peers_;  // two bounces and a chunk; a batch each way
  requests_.reserve(most);
  owners_.reserve(most);
  due_.reserve(links_.size());
}

mpi_endpoint::edge_sums mpi_endpoint::sums_of_unlinked() const {
  edge_sums sums;
  for (const auto& [id, held] : blocks_) {
    if (held.is_linked) continue;
    for (const link_id link : held.links) {
      const auto& [edge, credits] = std::tie(links_[link].spec, links_[link].credits);
      const rank from = edge.outgoing ? self_ : edge.peer;
      const rank to = edge.outgoing ? edge.peer : self_;
      std::uint64_t hash = mix(static_cast<std::uint64_t>(from) << 32 | static_cast<std::uint64_t>(to));
      hash = mix(hash ^ (std::uint64_t{id} << 32 | edge.tag));
      hash = mix(hash ^ (edge.capacity << 2 | (edge.signal ? 2u : 0u) | (credits ? 1u : 0u)));
      (edge.outgoing ? sums.outgoing : sums.incoming) += hash;
    }
  }
  return sums;
}

status mpi_endpoint::post_record(std::span<const std::byte> record) {
  if (health_ != status::ok) return health_;
  if (exchange_ != MPI_REQUEST_NULL) return status::state;
  const edge_sums sums = sums_of_unlinked();
  std::byte* mine = records_.get();
  std::memset(mine, 0, record_bytes);
  std::memcpy(mine, record.data(), std::min(record.size(), record_bytes));
  std::memcpy(mine + record_bytes, &sums, sizeof sums);
  constexpr int bytes = static_cast<int>(k_entry_bytes);
  (void)succeeded(MPI_Iallgather(mine, bytes, MPI_BYTE, mine + bytes, bytes, MPI_BYTE, comm_, &exchange_));
  return health_;
}

// MPI does not say who is late.
status mpi_endpoint::gather_records(std::span<std::byte> all, rank* missing) {
  if (all.size() < record_bytes * streams_.size()) return status::argument;
  if (health_ != status::ok) return health_;
  int is_done = 0;
  if (exchange_ != MPI_REQUEST_NULL && !succeeded(MPI_Test(&exchange_, &is_done, MPI_STATUS_IGNORE))) return health_;
  if (exchange_ != MPI_REQUEST_NULL) {
    if (missing != nullptr) *missing = k_no_rank;
    return status::pending;
  }
  edge_sums total;
  for (std::size_t r = 0; r < streams_.size(); ++r) {
    const std::byte* entry = records_.get() + k_entry_bytes * (r + 1);
    edge_sums sums;
    std::memcpy(&sums, entry + record_bytes, sizeof sums);
    total.outgoing += sums.outgoing;
    total.incoming += sums.incoming;
    std::memcpy(all.data() + record_bytes * r, entry, record_bytes);
  }
  has_agreed_ = total.outgoing == total.incoming;
  return status::ok;
}

// All ranks of the world come to the same answer, so the tags of both ends stay in step. A peer that was
// faster may have sent already; MPI keeps that until the receive is posted.
status mpi_endpoint::link(std::uint32_t id) {
  const auto found = blocks_.find(id);
  if (found == blocks_.end() || found->second.is_linked) return status::internal;
  if (!has_agreed_) return status::unmatched;
  found->second.is_linked = true;
  release_tags(found->second);
  for (const link_id link : sorted(found->second)) {
    link_state& state = links_[link];
    stream& with = stream_to(state.spec.peer);
    if (!state.spec.signal) state.tag = with.next_tag[state.spec.outgoing ? 1 : 0]++;
    if (!state.spec.signal) (state.spec.outgoing ? with.delivers : with.expects) = true;
    if (speaks_for(state.spec, state.credits)) with.speaks = true;
    if (hears_for(state.spec, state.credits) && !std::exchange(with.hears, true)) listen(with);
  }
  return health_;
}

void mpi_endpoint::detach(std::uint32_t id) {
  const auto found = blocks_.find(id);
  if (found == blocks_.end()) return;
  block& held = found->second;
  if (!held.is_linked) release_tags(held);
  for (const link_id link : held.links) {
    link_state& state = links_[link];
    forget(link);
    if (state.is_queued) std::erase(due_, link);
    state.is_queued = false;
    state.is_live = false;
    stream_to(state.spec.peer).hearers.erase(id);
  }
  retired_.push_back(std::move(held));
  blocks_.erase(found);
  reap();
}

// Sends that were reported done may still be on their way from a bounce buffer.
void mpi_endpoint::reap() {
  std::erase_if(retired_, [this](const block& held) {
    const auto is_in_flight = [this](link_id link) { return links_[link].in_flight != 0; };
    if (std::ranges::any_of(held.links, is_in_flight)) return false;
    free_links_.insert(free_links_.end(), held.links.begin(), held.links.end());
    return true;
  });
}

// --- data path: payload out --------------------------------------------------------------------------------

bool mpi_endpoint::can_transmit(const link_state& state, round_no round) const {
  if (state.is_bounce_busy[round % 2]) return false;
  return !state.credits || round <= 2 || state.value >= round - 2;
}

bool mpi_endpoint::send(link_id link, round_no round, const message& what) {
  if (can_transmit(links_[link], round)) return transmit(link, round, what);
  links_[link].outgoing = what;
  await(link, wait::turn, round);
  return false;
}

// True if the source may change at once.
bool mpi_endpoint::transmit(link_id link, round_no round, const message& what) {
  link_state& state = links_[link];
  const std::uint64_t bytes = what.null ? 0 : what.bytes;
  const bool is_small = bytes <= k_bounce_bytes;
  const header head{round, bytes, what.tally, what.null ? 1u : 0u, {}};
  std::byte* bounce = state.bounce[round % 2];
  std::memcpy(bounce, &head, sizeof head);
  if (is_small && bytes > 0) std::memcpy(bounce + sizeof head, what.data, bytes);

  MPI_Request request = MPI_REQUEST_NULL;
  const int length = static_cast<int>(sizeof head + (is_small ? bytes : 0));
  if (!succeeded(MPI_Isend(bounce, length, MPI_BYTE, state.spec.peer, state.tag, comm_, &request))) return false;
  ++stream_of(link).sent;
  int is_done = 0;  // a short message mostly is
  if (!succeeded(MPI_Test(&request, &is_done, MPI_STATUS_IGNORE))) return false;
  if (is_done == 0) add_request(request, {round % 2 == 0 ? task::bounce_even : task::bounce_odd, link});
  state.is_bounce_busy[round % 2] = is_done == 0;
  if (is_small) return true;
  state.outgoing = what;
  state.moved = 0;
  if (state.wait == wait::nothing) await(link, wait::chunks, round);
  state.wait = wait::chunks;
  post_chunk_out(link);
  return false;
}

void mpi_endpoint::resume(link_id link) {
  link_state& state = links_[link];
  if (state.wait != wait::turn || state.is_due || !can_transmit(state, state.round)) return;
  if (transmit(link, state.round, state.outgoing)) satisfy(link);
}

void mpi_endpoint::post_chunk_out(link_id link) {
  link_state& state = links_[link];
  const std::uint64_t bytes = std::min(limits_.chunk_bytes, state.outgoing.bytes - state.moved);
  MPI_Request request = MPI_REQUEST_NULL;
  if (!succeeded(MPI_Isend(state.outgoing.data + state.moved, static_cast<int>(bytes), MPI_BYTE, state.spec.peer,
                           state.tag, comm_, &request)))
    return;
  state.moved += bytes;
  ++stream_of(link).sent;
  add_request(request, {task::chunk_out, link});
}

// --- data path: payload in ---------------------------------------------------------------------------------

bool mpi_endpoint::receive(link_id link, round_no round, std::byte* into, arrival& out) {
  link_state& state = links_[link];
  state.into = into;
  await(link, wait::message, round);
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
  ++stream_of(link).taken;
  if (!succeeded(MPI_Get_count(&news, MPI_BYTE, &bytes)) || !landed(link, bytes)) return false;
  out = state.incoming;
  forget(link);
  return true;
}

// The header is here. True if the payload is, too; otherwise it is under way.
bool mpi_endpoint::landed(link_id link, int bytes) {
  link_state& state = links_[link];
  header head;
  std::memcpy(&head, state.bounce[0], sizeof head);
  const bool is_small = head.bytes <= k_bounce_bytes;
  const std::uint64_t expected = sizeof head + (is_small ? head.bytes : 0);
  if (static_cast<std::uint64_t>(bytes) != expected || head.round != state.round || head.bytes > state.spec.capacity) {
    health_ = status::transport;
    return false;
  }
  state.incoming = {state.into, head.bytes, head.tally, head.null != 0};
  if (is_small) {
    std::byte* payload = state.bounce[0] + sizeof head;
    if (state.spec.in_place)
      state.incoming.data = payload;
    else if (head.bytes > 0)
      std::memcpy(state.into, payload, head.bytes);
    return has_arrived(link);
  }
  if (state.spec.in_place) state.incoming.data = state.into = state.landing;
  state.moved = 0;
  post_chunk_in(link);
  return false;
}

void mpi_endpoint::post_chunk_in(link_id link) {
  link_state& state = links_[link];
  const std::uint64_t bytes = std::min(limits_.chunk_bytes, state.incoming.bytes - state.moved);
  MPI_Request request = MPI_REQUEST_NULL;
  if (!succeeded(MPI_Irecv(state.into + state.moved, static_cast<int>(bytes), MPI_BYTE, state.spec.peer, state.tag,
                           comm_, &request)))
    return;
  state.moved += bytes;
  add_request(request, {task::chunk_in, link});
}

// True if it was the last one.
bool mpi_endpoint::chunk_landed(link_id link, int bytes) {
  link_state& state = links_[link];
  if (static_cast<std::uint64_t>(bytes) != (state.moved - 1) % limits_.chunk_bytes + 1) {
    health_ = status::transport;
    return false;
  }
  if (state.moved == state.incoming.bytes) return has_arrived(link);
  post_chunk_in(link);
  return false;
}

// Always true. What is not read in place has been consumed.
bool mpi_endpoint::has_arrived(link_id link) {
  const link_state& state = links_[link];
  if (state.incoming.null || !state.spec.in_place) release(link, state.round);
  return true;
}

void mpi_endpoint::release(link_id link, round_no round) {
  if (links_[link].credits) tell(link, round);
}

// --- data path: signals and credits ------------------------------------------------------------------------

void mpi_endpoint::signal(link_id link, round_no round) { tell(link, round); }

// The newest value replaces one that has not left yet.
void mpi_endpoint::tell(link_id link, std::uint64_t value) {
  link_state& state = links_[link];
  if (value <= state.value) return;
  state.value = value;
  stream& to = stream_of(link);
  if (state.pending_at >= to.first_pending) {
    to.pending[state.pending_at - to.first_pending].value = value;
    return;
  }
  state.pending_at = to.first_pending + to.pending.size();
  to.pending.push_back({state.instance, state.control_index, value});
  speak(to);
}

void mpi_endpoint::speak(stream& to) {
  if (to.speaking || to.pending.empty() || health_ != status::ok) return;
  const std::size_t count = std::min(to.pending.size(), k_batch_records);
  const auto end = to.pending.begin() + static_cast<std::ptrdiff_t>(count);
  std::copy(to.pending.begin(), end, to.outgoing.begin());
  to.pending.erase(to.pending.begin(), end);
  to.first_pending += count;
  MPI_Request request = MPI_REQUEST_NULL;
  if (!succeeded(MPI_Issend(to.outgoing.data(), static_cast<int>(count * sizeof(control_record)), MPI_BYTE, to.peer,
                            k_control_tag, comm_, &request)))
    return;
  to.speaking = true;
  add_request(request, {task::control_out, static_cast<std::uint32_t>(to.peer)});
}

void mpi_endpoint::listen(stream& from) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (!succeeded(MPI_Irecv(from.incoming.data(), static_cast<int>(sizeof from.incoming), MPI_BYTE, from.peer,
                           k_control_tag, comm_, &request)))
    return;
  ++idle_receives_;
  add_request(request, {task::control_in, static_cast<std::uint32_t>(from.peer)});
}

void mpi_endpoint::hear(stream& from, int bytes) {
  --idle_receives_;
  const auto count = static_cast<std::size_t>(bytes) / sizeof(control_record);
  for (std::size_t i = 0; i < count; ++i) hear(from, from.incoming[i]);
  if (from.hears) listen(from);
}

// What concerns a detached instance is late credit: nobody waits for it.
void mpi_endpoint::hear(stream& from, const control_record& news) {
  if (news.index == k_goodbye) {
    from.hears = false;
    from.has_parted = true;
    from.promised = news.value;
    return;
  }
  const auto found = from.hearers.find(news.instance);
  if (found == from.hearers.end() || news.index >= found->second.size()) return;
  const link_id link = found->second[news.index];
  link_state& state = links_[link];
  state.value = std::max(state.value, news.value);
  if (state.spec.outgoing)
    resume(link);
  else if (state.wait == wait::signal && state.value >= state.round)
    satisfy(link);
}

bool mpi_endpoint::arm(link_id link, round_no round) {
  forget(link);
  if (links_[link].value >= round) return true;
  await(link, wait::signal, round);
  return false;
}

void mpi_endpoint::disarm(link_id link) {
  if (links_[link].wait == wait::signal) forget(link);
}

// --- data path: completions --------------------------------------------------------------------------------

void mpi_endpoint::await(link_id link, enum wait what, round_no round) {
  links_[link].wait = what;
  links_[link].round = round;
  ++waiting_;
}

void mpi_endpoint::satisfy(link_id link) {
  links_[link].is_due = true;
  if (!std::exchange(links_[link].is_queued, true)) due_.push_back(link);  // reserved: each link at most once
}

// A place in `due_` may stay behind; poll passes over it.
void mpi_endpoint::forget(link_id link) {
  link_state& state = links_[link];
  if (state.wait == wait::nothing) return;
  state.wait = wait::nothing;
  state.is_due = false;
  --waiting_;
}

std::size_t mpi_endpoint::poll(std::span<completion> out) {
  if (due_.size() <= out.size()) sweep();
  std::size_t found = 0;
  std::size_t taken = 0;
  for (; taken < due_.size() && found < out.size(); ++taken) {
    link_state& state = links_[due_[taken]];
    state.is_queued = false;
    if (!state.is_due) continue;
    out[found++] = {state.spec.cookie, state.round, state.wait == wait::message ? state.incoming : arrival{}};
    forget(due_[taken]);
  }
  due_.erase(due_.begin(), due_.begin() + static_cast<std::ptrdiff_t>(taken));
  return found;
}

void mpi_endpoint::add_request(MPI_Request request, owner whose) {
  requests_.push_back(request);  // reserved at attach
  owners_.push_back(whose);
  if (whose.what < task::control_out) ++links_[whose.of].in_flight;
}

// Looks at every request once, a window at a time, and stops at the first window with news for the caller;
// the next sweep goes on behind it, so that no request waits for ever behind busier ones.
void mpi_endpoint::sweep() {
  for (std::size_t looked = 0; looked < requests_.size() && health_ == status::ok;) {
    if (cursor_ >= requests_.size()) cursor_ = 0;
    const std::size_t count = std::min(k_window, requests_.size() - cursor_);
    const std::size_t found = test_window(cursor_, count);
    for (std::size_t i = 0; i < found; ++i) handle(events_[i]);
    looked += count;
    cursor_ += count;
    if (!due_.empty()) return;
  }
}

// Takes the finished requests out, oldest first, and answers how many `events_` there are now.
std::size_t mpi_endpoint::test_window(std::size_t begin, std::size_t count) {
  int found = 0;
  if (!succeeded(
          MPI_Testsome(static_cast<int>(count), requests_.data() + begin, &found, indices_.data(), statuses_.data())) ||
      found == MPI_UNDEFINED)
    return 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(found); ++i) {
    events_[i] = {owners_[begin + static_cast<std::size_t>(indices_[i])], 0};
    const bool is_receive = receives(events_[i].whose.what);
    if (is_receive && !succeeded(MPI_Get_count(&statuses_[i], MPI_BYTE, &events_[i].bytes))) return 0;
  }
  for (std::size_t i = found > 0 ? begin + count : begin; i-- > begin;) {
    if (requests_[i] != MPI_REQUEST_NULL) continue;
    requests_[i] = requests_.back();
    owners_[i] = owners_.back();
    requests_.pop_back();
    owners_.pop_back();
  }
  return static_cast<std::size_t>(found);
}

void mpi_endpoint::handle(const event& news) {
  const auto [what, of] = news.whose;
  if (what >= task::control_out) {
    if (what == task::leftover_in) return;
    stream& with = *streams_[of];
    if (what == task::control_in) return hear(with, news.bytes);
    with.speaking = false;
    return speak(with);
  }
  link_state& state = links_[of];
  --state.in_flight;
  if (what == task::header_in || what == task::chunk_in) ++stream_of(of).taken;
  if (!state.is_live) return;
  switch (what) {
    case task::bounce_even:
    case task::bounce_odd: state.is_bounce_busy[what == task::bounce_odd ? 1 : 0] = false; return resume(of);
    case task::chunk_out:
      if (state.moved == state.outgoing.bytes) return satisfy(of);
      return post_chunk_out(of);
    case task::header_in:
      if (landed(of, news.bytes)) satisfy(of);
      return;
    case task::chunk_in:
      if (chunk_landed(of, news.bytes)) satisfy(of);
      return;
    case task::control_out:
    case task::control_in:
    case task::leftover_in: return;
  }
}

}  // namespace lsched
