#include "libsched/transport/inproc.h"

#include <algorithm>
#include <array>
#include <compare>
#include <cstring>
#include <map>
#include <new>
#include <utility>

#include "libsched/schedule/draw.h"

namespace lsched {
namespace {

constexpr int k_released_pattern = 0xdb;
constexpr int k_fresh_pattern = 0xcd;
constexpr std::align_val_t k_alignment{64};

/// Both ends name an edge by this; signals and payloads are different edges.
struct edge_name {
  std::uint32_t instance;
  rank source;
  rank target;
  std::uint32_t tag;
  bool signal;
  auto operator<=>(const edge_name&) const = default;
};

/// How the payload of one message travels.
enum class carriage : std::uint8_t {
  copied,  ///< copied when sent
  late,    ///< read from the source on arrival
  shown,   ///< read from the source until released
};

/// A landing slot. A message occupies it from its departure until it was consumed.
struct slot {
  enum class phase : std::uint8_t { empty, flying, arrived, held };
  enum phase phase = phase::empty;
  enum carriage carriage = carriage::copied;
  round_no round = 0;
  message what{};
  std::byte* memory = nullptr;
};

/// What a link waits for; one thing at a time.
struct wait {
  enum class kind : std::uint8_t { nothing, arrival, credit, delivery, consumption, signal };
  enum kind kind = kind::nothing;
  bool due = false;  ///< satisfied, in the queue of completions
  round_no round = 0;
};

class edge;

/// One end of an edge.
struct edge_end {
  bool attached = false;  ///< ever
  bool detached = false;
  bool credits = false;
  std::uint64_t capacity = 0;
  link_id link = k_no_link;

  bool is_live() const { return attached && !detached; }
};

/// One direction between two ranks: two landing slots by round parity, or a register.
class edge {
 public:
  explicit edge(const edge_name& its_name) : name(its_name) {}

  const edge_name name;
  edge_end sender;
  edge_end receiver;

  std::array<slot, 2> slots{};
  std::unique_ptr<std::byte[]> memory;  ///< of both slots
  round_no sent = 0;                    ///< last round that departed
  round_no received = 0;                ///< last round the receiver asked for
  round_no consumed = 0;                ///< as the receiver knows
  round_no credited = 0;                ///< as the sender knows
  message delayed{};                    ///< waits for credit

  round_no raised = 0;  ///< as the sender knows
  round_no value = 0;   ///< as the receiver knows
  std::array<round_no, 2> flying_values{};
  std::uint32_t flying = 0;

  std::uint64_t last_arrival = 0;  ///< what departs now arrives no earlier
  std::uint64_t last_credit = 0;
};

/// Something on its way.
struct flight {
  enum class kind : std::uint8_t { payload, signal, credit };
  std::uint64_t due;
  std::uint64_t number;  ///< of departure: decides between equals
  edge* on;
  round_no round;
  enum kind kind;

  friend bool operator>(const flight& x, const flight& y) {
    return std::pair(x.due, x.number) > std::pair(y.due, y.number);
  }
};

/// What a rank has posted for the exchanges of commit records. Two are kept: a rank may be one exchange
/// ahead.
struct posted_records {
  std::uint64_t number = 0;
  std::array<std::array<std::byte, endpoint::record_bytes>, 2> content{};
};

}  // namespace

class inproc_endpoint;

struct inproc_world::state {
  enum class presence : std::uint8_t { absent, open, closed, dead };
  struct seat {
    presence here = presence::absent;
    inproc_endpoint* user = nullptr;
    posted_records records;
  };

  std::uint64_t seed;
  inproc_options options;
  std::vector<seat> places;
  std::map<edge_name, std::unique_ptr<edge>> edges;
  std::vector<flight> flights;  ///< a heap; its room is reserved at attach
  std::uint64_t now = 0;
  std::uint64_t departures = 0;
  std::uint64_t draws = 0;
  std::string first_fault;

  std::uint64_t draw() { return mix(mix(seed) ^ ++draws); }
  void depart(edge& on, enum flight::kind kind, round_no round);
  void arrive(const flight& what);
  void tick();
  edge& find_or_add(const edge_name& name);
  void remove_if_unused(edge& it);
};

class inproc_endpoint final : public endpoint {
 public:
  inproc_endpoint(inproc_world::state& world, rank self) : world_(world), self_(self) {}
  ~inproc_endpoint() override;

  lsched::world place() const override { return {self_, static_cast<rank>(world_.places.size())}; }
  std::string_view name() const override { return "inproc"; }
  std::byte* allocate(std::size_t bytes) override;
  void deallocate(std::byte* memory) override { ::operator delete(memory, k_alignment); }
  bool receives_in_place() const override { return true; }

  result<std::vector<link_id>> attach(std::uint32_t id, bool credits, std::span<const edge_spec> edges) override;
  status post_record(std::span<const std::byte> record) override;
  status gather_records(std::span<std::byte> all, rank* missing) override;
  status link(std::uint32_t id) override;
  void detach(std::uint32_t id) override;

  bool send(link_id link, round_no round, const message& what) override;
  bool receive(link_id link, round_no round, std::byte* into, arrival& out) override;
  void release(link_id link, round_no round) override;
  void signal(link_id link, round_no round) override;
  bool arm(link_id link, round_no round) override;
  void disarm(link_id link) override;
  std::size_t poll(std::span<completion> out) override;
  bool is_listening() const override { return waiting_ > 0; }
  bool is_time_driven() const override { return !world_.flights.empty(); }
  rank find_dead_peer() override;
  status health() const override { return health_; }
  doorbell& bell() override { return bell_; }
  void close() override { mine().here = inproc_world::state::presence::closed; }

  // --- called by the world -------------------------------------------------------------------------------
  void payload_arrived(edge& on);
  void credit_arrived(edge& on, round_no round);
  void signal_arrived(edge& on);
  void source_was_read(edge& on);

 private:
  struct link_state {
    edge_spec spec{};
    edge* on = nullptr;
    std::uint32_t instance = 0;
    std::byte* into = nullptr;
    struct wait wait {};
  };
  using waits = enum wait::kind;

  inproc_world::state::seat& mine() { return world_.places[static_cast<std::size_t>(self_)]; }
  inproc_world::state::presence presence_of(rank peer) const {
    return world_.places[static_cast<std::size_t>(peer)].here;
  }
  bool expect(bool holds, const link_state& where, round_no round, const char* complaint);
  link_id add_link(std::uint32_t id, bool credits, const edge_spec& spec);
  void drop_link(link_id link);
  void give_up_sending(edge& it);

  bool transmit(link_state& from, round_no round, const message& what);
  void take(link_state& at, round_no round, std::byte* into, arrival& out);
  void consume(edge& it, slot& landing);
  void await(link_id link, waits what, round_no round);
  void satisfy(link_id link);
  void forget(link_id link);
  bool can_be_satisfied(const link_state& it) const;

  inproc_world::state& world_;
  rank self_;
  std::vector<link_state> links_;
  std::vector<link_id> free_links_;
  std::map<std::uint32_t, std::vector<link_id>> instances_;
  std::vector<link_id> queue_;  ///< links whose wait is due, in order; its room is reserved at attach
  std::size_t waiting_ = 0;
  status health_ = status::ok;
  doorbell bell_{};
};

// --- the world -------------------------------------------------------------------------------------------

inproc_world::inproc_world(rank ranks, std::uint64_t seed, inproc_options options) : state_(new state) {
  state_->seed = seed;
  state_->options = options;
  state_->places.resize(static_cast<std::size_t>(std::max(ranks, 1)));
  if (options.max_delay_steps == 0)
    state_->options.max_delay_steps = 3 * static_cast<std::uint32_t>(state_->places.size());
}

inproc_world::~inproc_world() = default;

result<std::unique_ptr<endpoint>> inproc_world::open(rank self) {
  if (self < 0 || static_cast<std::size_t>(self) >= state_->places.size())
    return failure{status::argument,
                   "rank " + std::to_string(self) + " is outside a world of " + std::to_string(state_->places.size()),
                   self};
  state::seat& here = state_->places[static_cast<std::size_t>(self)];
  if (here.here != state::presence::absent)
    return failure{status::state, "rank " + std::to_string(self) + " is taken already", self};
  auto made = std::make_unique<inproc_endpoint>(*state_, self);
  here.here = state::presence::open;
  here.user = made.get();
  return std::unique_ptr<endpoint>(std::move(made));
}

void inproc_world::tick() { state_->tick(); }
std::uint64_t inproc_world::now() const { return state_->now; }
std::size_t inproc_world::in_flight() const { return state_->flights.size(); }
std::size_t inproc_world::edges() const { return state_->edges.size(); }
const std::string& inproc_world::first_fault() const { return state_->first_fault; }

void inproc_world::state::tick() {
  ++now;
  while (!flights.empty() && flights.front().due <= now) {
    std::pop_heap(flights.begin(), flights.end(), std::greater<>());
    const flight next = flights.back();
    flights.pop_back();
    arrive(next);
  }
}

// What departs later on an edge arrives no earlier; between edges only the draw decides.
void inproc_world::state::depart(edge& on, enum flight::kind kind, round_no round) {
  std::uint64_t& last = kind == flight::kind::credit ? on.last_credit : on.last_arrival;
  last = std::max(last, now + 1 + draw() % options.max_delay_steps);
  flights.push_back({last, ++departures, &on, round, kind});
  std::push_heap(flights.begin(), flights.end(), std::greater<>());
}

void inproc_world::state::arrive(const flight& what) {
  edge& on = *what.on;
  inproc_endpoint* const sender = on.sender.is_live() ? places[static_cast<std::size_t>(on.name.source)].user : nullptr;
  inproc_endpoint* const receiver =
      on.receiver.is_live() ? places[static_cast<std::size_t>(on.name.target)].user : nullptr;
  switch (what.kind) {
    case flight::kind::signal:
      on.value = on.flying_values[0];
      on.flying_values[0] = on.flying_values[1];
      --on.flying;
      if (receiver != nullptr) receiver->signal_arrived(on);
      return;
    case flight::kind::credit:
      on.credited = what.round;
      if (sender != nullptr) sender->credit_arrived(on, what.round);
      return;
    case flight::kind::payload: {
      slot& landing = on.slots[what.round % 2];
      landing.phase = slot::phase::arrived;
      if (landing.carriage == carriage::late) {
        std::memcpy(landing.memory, landing.what.data, landing.what.bytes);
        landing.carriage = carriage::copied;
        if (sender != nullptr) sender->source_was_read(on);
      }
      if (receiver != nullptr) receiver->payload_arrived(on);
      return;
    }
  }
}

edge& inproc_world::state::find_or_add(const edge_name& name) {
  auto& place = edges[name];
  if (place == nullptr) {
    place = std::make_unique<edge>(name);
    const std::size_t needed = 4 * edges.size();  // per edge at most two messages or signals, and two credits
    if (flights.capacity() < needed) flights.reserve(2 * needed);
  }
  return *place;
}

void inproc_world::state::remove_if_unused(edge& it) {
  if (it.sender.is_live() || it.receiver.is_live()) return;
  std::erase_if(flights, [&](const flight& any) { return any.on == &it; });
  std::make_heap(flights.begin(), flights.end(), std::greater<>());
  edges.erase(edge_name{it.name});
}

// --- commit ----------------------------------------------------------------------------------------------

inproc_endpoint::~inproc_endpoint() {
  while (!instances_.empty()) detach(instances_.begin()->first);
  auto& here = mine();
  here.user = nullptr;
  if (here.here == inproc_world::state::presence::open) here.here = inproc_world::state::presence::dead;
}

std::byte* inproc_endpoint::allocate(std::size_t bytes) {
  void* const memory = ::operator new(bytes, k_alignment, std::nothrow);
  if (memory != nullptr) std::memset(memory, k_fresh_pattern, bytes);
  return static_cast<std::byte*>(memory);
}

result<std::vector<link_id>> inproc_endpoint::attach(std::uint32_t id, bool credits, std::span<const edge_spec> edges) {
  if (instances_.contains(id)) return failure{status::state, "instance " + std::to_string(id) + " is attached already"};
  std::vector<link_id>& links = instances_[id];
  for (const edge_spec& spec : edges) {
    const bool exists = spec.peer >= 0 && static_cast<std::size_t>(spec.peer) < world_.places.size();
    const link_id link = exists ? add_link(id, credits, spec) : k_no_link;
    if (link == k_no_link) {
      detach(id);
      return failure{status::argument, exists ? "two edges of one tag and direction" : "an edge leaves the world",
                     spec.peer};
    }
    links.push_back(link);
  }
  queue_.reserve(links_.size());
  return links;
}

// k_no_link when this end of the edge is taken.
link_id inproc_endpoint::add_link(std::uint32_t id, bool credits, const edge_spec& spec) {
  const rank source = spec.outgoing ? self_ : spec.peer;
  const rank target = spec.outgoing ? spec.peer : self_;
  edge& on = world_.find_or_add({id, source, target, spec.tag, spec.signal});
  edge_end& end = spec.outgoing ? on.sender : on.receiver;
  if (end.attached) return k_no_link;

  link_id link = static_cast<link_id>(links_.size());
  if (free_links_.empty()) {
    links_.emplace_back();
  } else {
    link = free_links_.back();
    free_links_.pop_back();
  }
  links_[link] = {.spec = spec, .on = &on, .instance = id};
  end = {.attached = true, .credits = credits, .capacity = spec.capacity, .link = link};
  if (!spec.signal && !spec.outgoing) {
    on.memory = std::make_unique_for_overwrite<std::byte[]>(2 * spec.capacity);
    on.slots[0].memory = on.memory.get();
    on.slots[1].memory = on.memory.get() + spec.capacity;
  }
  return link;
}

status inproc_endpoint::post_record(std::span<const std::byte> record) {
  posted_records& posted = mine().records;
  auto& place = posted.content[++posted.number % 2];
  place.fill(std::byte{0});
  std::copy_n(record.begin(), std::min(record.size(), place.size()), place.begin());
  return status::ok;
}

status inproc_endpoint::gather_records(std::span<std::byte> all, rank* missing) {
  if (all.size() < record_bytes * world_.places.size()) return status::argument;
  const std::uint64_t number = mine().records.number;
  for (std::size_t r = 0; r < world_.places.size(); ++r) {
    if (world_.places[r].records.number >= number) continue;
    if (missing != nullptr) *missing = static_cast<rank>(r);
    return status::pending;
  }
  for (std::size_t r = 0; r < world_.places.size(); ++r)
    std::copy_n(world_.places[r].records.content[number % 2].begin(), record_bytes,
                all.begin() + static_cast<std::ptrdiff_t>(r * record_bytes));
  return status::ok;
}

// A fast peer may have sent its messages and detached by now, so an end that was attached counts.
status inproc_endpoint::link(std::uint32_t id) {
  const auto found = instances_.find(id);
  if (found == instances_.end()) return status::internal;
  for (const link_id link : found->second) {
    const edge& on = *links_[link].on;
    if (!on.sender.attached || !on.receiver.attached || on.sender.capacity != on.receiver.capacity ||
        on.sender.credits != on.receiver.credits)
      return status::unmatched;
  }
  return status::ok;
}

void inproc_endpoint::detach(std::uint32_t id) {
  const auto found = instances_.find(id);
  if (found == instances_.end()) return;
  for (const link_id link : found->second) drop_link(link);
  instances_.erase(found);
}

void inproc_endpoint::drop_link(link_id link) {
  link_state& it = links_[link];
  edge& on = *it.on;
  forget(link);
  if (it.spec.outgoing && !it.spec.signal) give_up_sending(on);
  (it.spec.outgoing ? on.sender : on.receiver).detached = true;
  it.on = nullptr;
  free_links_.push_back(link);
  world_.remove_if_unused(on);
}

// The sources may be gone after this.
void inproc_endpoint::give_up_sending(edge& it) {
  for (slot& landing : it.slots) {
    if (landing.phase == slot::phase::empty || landing.carriage == carriage::copied) continue;
    expect(landing.phase != slot::phase::held, links_[it.sender.link], landing.round, "detached while it is read");
    if (it.receiver.attached) std::memcpy(landing.memory, landing.what.data, landing.what.bytes);
    landing.carriage = carriage::copied;
  }
}

// --- data path: sending ----------------------------------------------------------------------------------

// A broken invariant of the caller: fails this endpoint, and says why once.
bool inproc_endpoint::expect(bool holds, const link_state& where, round_no round, const char* complaint) {
  if (holds) return true;
  health_ = status::internal;
  if (world_.first_fault.empty())
    world_.first_fault = "rank " + std::to_string(self_) + ", instance " + std::to_string(where.instance) +
                         (where.spec.outgoing ? ", edge to " : ", edge from ") + std::to_string(where.spec.peer) +
                         " tag " + std::to_string(where.spec.tag) + ", round " + std::to_string(round) + ": " +
                         complaint;
  return false;
}

namespace {

/// Credits count rounds, so none is left out.
bool follows(round_no round, round_no last, const edge& on) {
  return on.sender.credits ? round == last + 1 : round > last;
}

}  // namespace

bool inproc_endpoint::send(link_id link, round_no round, const message& what) {
  link_state& it = links_[link];
  edge& on = *it.on;
  if (!expect(it.spec.outgoing && !it.spec.signal, it, round, "sent on an edge that does not send payload") ||
      !expect(follows(round, on.sent, on), it, round, "sent, but not in a round that may follow the last one") ||
      !expect(it.wait.kind == waits::nothing, it, round, "sent while an earlier send is under way") ||
      !expect(what.null || what.bytes <= it.spec.capacity, it, round, "sent more than the edge carries"))
    return true;
  if (on.sender.credits && round > 2 && on.credited < round - 2) {
    on.delayed = what;
    await(link, waits::credit, round);
    return false;
  }
  return transmit(it, round, what);
}

// True if the source may change at once.
bool inproc_endpoint::transmit(link_state& from, round_no round, const message& what) {
  edge& on = *from.on;
  on.sent = round;
  slot& landing = on.slots[round % 2];
  if (!expect(landing.phase == slot::phase::empty && on.receiver.attached, from, round,
              "sent into a landing slot that is still in use"))
    return true;
  landing.phase = slot::phase::flying;
  landing.round = round;
  landing.what = what;
  landing.carriage = carriage::copied;
  const std::uint64_t choice = world_.draw() % 4;
  if (!what.null && what.bytes > 0) {
    if (world_.options.late_sends && choice < 2)
      landing.carriage = choice == 0 ? carriage::late : carriage::shown;
    else
      std::memcpy(landing.memory, what.data, what.bytes);
  }
  world_.depart(on, flight::kind::payload, round);
  if (landing.carriage == carriage::copied) return true;
  await(on.sender.link, landing.carriage == carriage::late ? waits::delivery : waits::consumption, round);
  return false;
}

void inproc_endpoint::source_was_read(edge& on) { satisfy(on.sender.link); }

void inproc_endpoint::credit_arrived(edge& on, round_no round) {
  link_state& it = links_[on.sender.link];
  const struct wait waited = it.wait;
  if (waited.due) return;
  if (waited.kind == waits::consumption && round >= waited.round) {
    satisfy(on.sender.link);
  } else if (waited.kind == waits::credit && round + 2 >= waited.round) {
    forget(on.sender.link);
    if (transmit(it, waited.round, on.delayed)) {
      await(on.sender.link, waits::credit, waited.round);
      satisfy(on.sender.link);
    }
  }
}

// The register only grows, and at most two values are on their way; whether a third merges with the last one
// is no choice, whether a second does is drawn.
void inproc_endpoint::signal(link_id link, round_no round) {
  link_state& it = links_[link];
  edge& on = *it.on;
  if (!expect(it.spec.outgoing && it.spec.signal, it, round, "signalled on an edge that carries no signals")) return;
  if (round <= on.raised) return;
  on.raised = round;
  const bool merges = world_.draw() % 2 == 0;
  if (on.flying == 2 || (on.flying == 1 && merges)) {
    on.flying_values[on.flying - 1] = round;
    return;
  }
  on.flying_values[on.flying++] = round;
  world_.depart(on, flight::kind::signal, round);
}

// --- data path: receiving --------------------------------------------------------------------------------

bool inproc_endpoint::receive(link_id link, round_no round, std::byte* into, arrival& out) {
  link_state& it = links_[link];
  edge& on = *it.on;
  out = {into, 0, {}, true};
  if (!expect(!it.spec.outgoing && !it.spec.signal, it, round, "received on an edge that receives no payload") ||
      !expect(follows(round, on.received, on), it, round,
              "received, but not in a round that may follow the last one") ||
      !expect(it.wait.kind == waits::nothing, it, round, "received while an earlier receive is under way") ||
      !expect(on.slots[(round + 1) % 2].phase != slot::phase::held, it, round, "received before a release"))
    return true;
  on.received = round;
  it.into = into;
  if (const slot& landing = on.slots[round % 2]; landing.phase == slot::phase::arrived && landing.round == round) {
    take(it, round, into, out);
    return true;
  }
  await(link, waits::arrival, round);
  return false;
}

void inproc_endpoint::payload_arrived(edge& on) {
  const struct wait& waited = links_[on.receiver.link].wait;
  if (waited.kind != waits::arrival || waited.due) return;
  const slot& landing = on.slots[waited.round % 2];
  if (landing.phase == slot::phase::arrived && landing.round == waited.round) satisfy(on.receiver.link);
}

void inproc_endpoint::take(link_state& at, round_no round, std::byte* into, arrival& out) {
  slot& landing = at.on->slots[round % 2];
  const message& what = landing.what;
  out = {into, what.bytes, what.tally, what.null};
  const std::byte* const payload = landing.carriage == carriage::shown ? what.data : landing.memory;
  if (at.spec.in_place && !what.null) {
    landing.phase = slot::phase::held;
    out.data = payload;
    return;
  }
  if (!what.null && what.bytes > 0 && expect(into != nullptr, at, round, "received without a target"))
    std::memcpy(into, payload, what.bytes);
  consume(*at.on, landing);
}

void inproc_endpoint::consume(edge& it, slot& landing) {
  const bool shown = landing.carriage == carriage::shown;
  if (!landing.what.null && landing.what.bytes > 0) std::memset(landing.memory, k_released_pattern, landing.what.bytes);
  landing.phase = slot::phase::empty;
  landing.carriage = carriage::copied;
  it.consumed = landing.round;
  if (shown || it.receiver.credits) world_.depart(it, flight::kind::credit, landing.round);
}

// A null message holds nothing, so releasing it is neither needed nor wrong.
void inproc_endpoint::release(link_id link, round_no round) {
  link_state& it = links_[link];
  slot& landing = it.on->slots[round % 2];
  if (landing.round == round && landing.phase == slot::phase::held)
    consume(*it.on, landing);
  else
    expect(landing.round == round && landing.what.null, it, round, "released, but not held");
}

bool inproc_endpoint::arm(link_id link, round_no round) {
  link_state& it = links_[link];
  if (!expect(!it.spec.outgoing && it.spec.signal, it, round, "armed an edge that has no register")) return true;
  forget(link);
  if (it.on->value >= round) return true;
  await(link, waits::signal, round);
  return false;
}

void inproc_endpoint::disarm(link_id link) {
  if (links_[link].wait.kind == waits::signal) forget(link);
}

void inproc_endpoint::signal_arrived(edge& on) {
  const struct wait& waited = links_[on.receiver.link].wait;
  if (waited.kind == waits::signal && !waited.due && on.value >= waited.round) satisfy(on.receiver.link);
}

// --- data path: completions ------------------------------------------------------------------------------

void inproc_endpoint::await(link_id link, waits what, round_no round) {
  links_[link].wait = {what, false, round};
  ++waiting_;
}

void inproc_endpoint::satisfy(link_id link) {
  links_[link].wait.due = true;
  queue_.push_back(link);
  ring_if_needed(bell_);
}

void inproc_endpoint::forget(link_id link) {
  struct wait& it = links_[link].wait;
  if (it.kind == waits::nothing) return;
  if (it.due) std::erase(queue_, link);
  it = {};
  --waiting_;
}

std::size_t inproc_endpoint::poll(std::span<completion> out) {
  world_.tick();
  const std::size_t found = std::min(out.size(), queue_.size());
  for (std::size_t i = 0; i < found; ++i) {
    link_state& it = links_[queue_[i]];
    const struct wait done = std::exchange(it.wait, {});
    --waiting_;
    out[i] = {it.spec.cookie, done.round, {}};
    if (done.kind == waits::arrival) take(it, done.round, it.into, out[i].what);
  }
  queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(found));
  return found;
}

// Whether what the link waits for has been done or sent, so that only the clock is in the way.
bool inproc_endpoint::can_be_satisfied(const link_state& it) const {
  const edge& on = *it.on;
  switch (it.wait.kind) {
    case waits::nothing:
    case waits::delivery: return true;
    case waits::arrival: return on.sent >= it.wait.round;
    case waits::credit: return on.consumed + 2 >= it.wait.round;
    case waits::consumption: return on.consumed >= it.wait.round;
    case waits::signal: return on.raised >= it.wait.round;
  }
  return true;
}

rank inproc_endpoint::find_dead_peer() {
  using presence = inproc_world::state::presence;
  for (rank peer = 0; peer < place().size; ++peer) {
    if (presence_of(peer) == presence::dead) return peer;
    const auto& posted = world_.places[static_cast<std::size_t>(peer)].records;
    if (presence_of(peer) == presence::closed && posted.number < mine().records.number) return peer;
  }
  for (const link_state& it : links_)
    if (it.on != nullptr && presence_of(it.spec.peer) == presence::closed && !can_be_satisfied(it)) return it.spec.peer;
  return k_no_rank;
}

}  // namespace lsched
