#include "tests/support/inproc_endpoint.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "tests/support/inproc_board.h"

namespace lsched {

using inproc::carriage;
using inproc::edge;
using inproc::flight;
using inproc::slot;

namespace {

constexpr int k_released_pattern = 0xdb;
constexpr int k_fresh_pattern = 0xcd;

}  // namespace

// --- commit ----------------------------------------------------------------------------------------------

// The attachments of this rank stay in the world. If another rank links the same instance later, that rank finds a dead
// peer instead of a missing peer.
inproc_endpoint::~inproc_endpoint() {
  for (link_id link = 0; link < links_.size(); ++link)
    if (links_[link].on != nullptr) drop_link(link);
  auto& here = mine();
  here.user = nullptr;
  if (here.here == inproc_world::state::presence::open) here.here = inproc_world::state::presence::dead;
}

std::byte* inproc_endpoint::allocate(std::size_t bytes) {
  void* const memory = ::operator new(bytes, k_memory_alignment, std::nothrow);
  if (memory != nullptr) std::memset(memory, k_fresh_pattern, bytes);
  return static_cast<std::byte*>(memory);
}

result<std::unique_ptr<board>> inproc_endpoint::open_board(std::size_t most) {
  world_.boards.push_back({.owner = self_, .most = most});
  return std::unique_ptr<board>(std::make_unique<inproc_board>(world_, world_.boards.size() - 1));
}

std::unique_ptr<board> inproc_endpoint::open_home_board() {
  auto made = std::make_unique<inproc_board>(world_, static_cast<std::size_t>(self_));
  made->join_home();
  return made;
}

result<std::vector<link_id>> inproc_endpoint::attach(std::uint32_t id, std::span<const rank> members, bool credits,
                                                     std::span<const edge_spec> edges) {
  if (world_.attached.contains({self_, id}))
    return failure{status::state, "instance " + std::to_string(id) + " is attached already"};
  std::set<std::tuple<bool, bool, rank, std::uint32_t>> known;
  for (const edge_spec& spec : edges) {
    if (std::ranges::find(members, spec.peer) == members.end())
      return failure{status::argument, "the peer of an edge is outside the world", spec.peer};
    if (!known.emplace(spec.outgoing, spec.signal, spec.peer, spec.tag).second)
      return failure{status::argument, "two edges have the same tag and direction", spec.peer};
  }
  inproc::attachment& made = world_.attached[{self_, id}];
  made.members.assign(members.begin(), members.end());
  made.credits = credits;
  made.edges.assign(edges.begin(), edges.end());
  for (const edge_spec& spec : edges) made.links.push_back(add_link(id, spec));
  queue_.reserve(links_.size());
  return made.links;
}

link_id inproc_endpoint::add_link(std::uint32_t id, const edge_spec& spec) {
  link_id link = static_cast<link_id>(links_.size());
  if (free_links_.empty()) {
    links_.emplace_back();
  } else {
    link = free_links_.back();
    free_links_.pop_back();
  }
  links_[link] = {.spec = spec, .instance = id};
  return link;
}

// A fast peer may already have sent its messages and detached. Therefore a peer counts as present if it has ever been
// attached.
status inproc_endpoint::link(std::uint32_t id, std::span<const member_address> all) {
  const auto found = world_.attached.find({self_, id});
  if (found == world_.attached.end() || all.size() != found->second.members.size()) return status::internal;
  const inproc::attachment& ours = found->second;
  if (ours.of->ends.empty() && !world_.connect(ours.members, all)) return status::unmatched;
  if (!std::ranges::equal(ours.of->ends, all, {}, &inproc::end_name::id, &member_address::near))
    return status::unmatched;
  for (const link_id link : ours.links) {
    const edge& on = *links_[link].on;
    if (!on.sender.attached || !on.receiver.attached || on.sender.capacity != on.receiver.capacity ||
        on.sender.credits != on.receiver.credits)
      return status::unmatched;
  }
  return status::ok;
}

void inproc_endpoint::detach(std::uint32_t id) {
  const auto found = world_.attached.find({self_, id});
  if (found == world_.attached.end()) return;
  for (const link_id link : found->second.links) drop_link(link);
  world_.attached.erase(found);
}

// The caller may free the sources of messages after this call. Therefore this function copies the payloads that are
// still in the sources, or marks these payloads as refused if peers may no longer read them.
void inproc_endpoint::drop_link(link_id link) {
  link_state& it = links_[link];
  forget(link);
  free_links_.push_back(link);
  if (it.on == nullptr) return;
  edge& on = *std::exchange(it.on, nullptr);
  if (it.spec.outgoing && !it.spec.signal)
    for (slot& landing : on.slots) {
      if (landing.phase == slot::phase::empty || landing.carriage == carriage::copied) continue;
      const bool is_read = landing.phase == slot::phase::held || (landing.is_claimed && on.end_of_reads());
      const bool is_dead = mine().here == inproc_world::state::presence::dead;
      expect(!is_read || is_dead || world_.options.stays_open, it, landing.round, "detached while it is read");
      on.end_of_reads() ? refuse(landing) : copy_payload(on, landing);
    }
  else if (!it.spec.signal)
    for (slot& landing : on.slots) let_go(landing);
  (it.spec.outgoing ? on.sender : on.receiver).detached = true;
  world_.remove_if_unused(on);
}

void inproc_endpoint::copy_payload(edge& it, slot& landing) {
  if (it.receiver.attached) std::memcpy(landing.memory, landing.what.data, landing.what.bytes);
  landing.carriage = carriage::copied;
  landing.is_claimed = false;
}

// --- giving up -------------------------------------------------------------------------------------------

// Gives up the receives of an instance. Sends continue, because peers may read the sources until this rank closes its
// memory to readers.
void inproc_endpoint::abandon(std::uint32_t id) {
  for (const link_id link : links_of(id)) {
    link_state& it = links_[link];
    forget(link);
    if (it.on == nullptr || it.spec.outgoing || it.spec.signal) continue;
    for (slot& landing : it.on->slots) {
      landing.phase == slot::phase::held ? consume(*it.on, landing) : let_go(landing);
    }
  }
}

void inproc_endpoint::close_to_readers(std::uint32_t id, const end_reason& reason) {
  if (world_.options.stays_open) return;
  for (const link_id link : links_of(id)) {
    edge* const on = links_[link].on;
    if (on != nullptr && links_[link].spec.outgoing && !on->closed) on->closed = reason;
  }
}

status inproc_endpoint::check_readers(std::uint32_t id, rank* reader) {
  if (world_.options.stays_open) return status::ok;
  for (const link_id link : links_of(id)) {
    const link_state& it = links_[link];
    if (it.on == nullptr || !it.spec.outgoing || it.spec.signal) continue;
    if (presence_of(it.spec.peer) == inproc_world::state::presence::dead) continue;
    for (const slot& landing : it.on->slots) {
      const bool is_held = landing.phase == slot::phase::held && landing.carriage != carriage::copied;
      if (!is_held && !landing.is_claimed) continue;
      *reader = it.spec.peer;
      return status::pending;
    }
  }
  return status::ok;
}

// Reports cancellations. A cancellation by this rank is reported at once, and a cancellation by another rank after a
// random delay.
void inproc_endpoint::find_given_up() {
  if (!world_.has_given_up) return;
  auto it = world_.attached.lower_bound({self_, 0});
  for (; it != world_.attached.end() && it->first.who == self_; ++it) {
    auto& [id, ours] = *it;
    const auto& [ends, reason, since] = *ours.of;
    if (!reason || ours.is_told) continue;
    const std::uint64_t delay =
        mix(world_.seed ^ id.id ^ static_cast<std::uint64_t>(self_)) % world_.options.max_delay_steps;
    if (reason->who == self_ || world_.now >= since + delay) report_end(id.id, *reason);
  }
}

void inproc_endpoint::report_end(std::uint32_t id, const end_reason& reason) {
  if (!std::exchange(world_.attached.at({self_, id}).is_told, true)) report_cancelled({id, reason});
}

// --- data path: sending ----------------------------------------------------------------------------------

// Checks an invariant that the caller must keep. If `holds` is false, this endpoint fails. The world records the first
// complaint.
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

/// Returns whether `round` may follow `last`. An edge with credits must not skip a round, because each credit stands
/// for one round.
bool follows(round_no round, round_no last, const edge& on) {
  return on.sender.credits ? round == last + 1 : round > last;
}

}  // namespace

bool inproc_endpoint::send(link_id link, round_no round, const message& what) {
  link_state& it = links_[link];
  edge& on = *it.on;
  if (!expect(it.spec.outgoing && !it.spec.signal, it, round, "sent on an edge that does not send payload") ||
      !expect(follows(round, on.sent, on), it, round, "sent, but not in a round that may follow the last round") ||
      !expect(it.wait.kind == waits::nothing, it, round, "sent while an earlier send is under way") ||
      !expect(what.null || what.bytes <= std::min(it.spec.capacity, inproc::k_most_payload), it, round,
              "sent more than the edge carries"))
    return true;
  if (on.sender.credits && round > 2 && on.credited < round - 2) {
    on.delayed = what;
    await(link, waits::credit, round);
    return false;
  }
  return transmit(it, round, what);
}

// Sends a message. Returns true if the caller may change the source at once.
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
  landing.is_claimed = landing.is_refused = false;
  const std::uint64_t choice = world_.draw() % 4;
  if (!what.null && what.bytes > 0) {
    if (world_.options.late_sends && choice < 2)
      landing.carriage = choice == 0 ? carriage::late : carriage::shown;
    else
      std::memcpy(landing.memory, what.data, what.bytes);
  }
  world_.depart(on, landing.carriage == carriage::late ? flight::kind::claim : flight::kind::payload, round);
  if (landing.carriage == carriage::copied) return true;
  await(on.sender.link, landing.carriage == carriage::late ? waits::delivery : waits::consumption, round);
  return false;
}

void inproc_endpoint::source_was_read(edge& on) { satisfy(on.sender.link); }

void inproc_endpoint::credit_arrived(edge& on, round_no round) {
  link_state& it = links_[on.sender.link];
  const inproc::wait waited = it.wait;
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

// The value of a signal never decreases, and at most two values are in flight on an edge. If one value is in flight, a
// random draw decides whether the new value replaces it. If two are in flight, the new value replaces the newer of
// them.
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

bool inproc_endpoint::receive(link_id link, round_no round, message_target into, arrival& out) {
  link_state& it = links_[link];
  edge& on = *it.on;
  out = {into.memory, 0, {}, true};
  if (!expect(!it.spec.outgoing && !it.spec.signal, it, round, "received on an edge that receives no payload") ||
      !expect(follows(round, on.received, on), it, round,
              "received, but not in a round that may follow the last round") ||
      !expect(it.wait.kind == waits::nothing, it, round, "received while an earlier receive is under way") ||
      !expect(on.slots[(round + 1) % 2].phase != slot::phase::held, it, round, "received before a release"))
    return true;
  on.received = round;
  it.into = into;
  const slot& landing = on.slots[round % 2];
  if (landing.phase == slot::phase::arrived && landing.round == round && take(it, round, into, out)) return true;
  await(link, waits::arrival, round);
  return false;
}

bool inproc_endpoint::fetch(link_id link, round_no round, message_target into, arrival& out) {
  link_state& it = links_[link];
  it.is_fetching = true;
  const bool is_there = take(it, round, into, out);
  it.is_fetching = false;
  return is_there;
}

void inproc_endpoint::payload_arrived(edge& on) {
  const inproc::wait& waited = links_[on.receiver.link].wait;
  if (waited.kind != waits::arrival || waited.due) return;
  const slot& landing = on.slots[waited.round % 2];
  if (landing.phase == slot::phase::arrived && landing.round == waited.round) satisfy(on.receiver.link);
}

// Receives the message in a landing slot. If the sender no longer permits reads of the payload, this function reports
// the end of the instance and returns false.
bool inproc_endpoint::take(link_state& at, round_no round, message_target into, arrival& out) {
  slot& landing = at.on->slots[round % 2];
  const message& what = landing.what;
  out = {into.memory, what.bytes, what.tally, what.null};
  if (at.spec.announced && !at.is_fetching) {
    out.data = nullptr;
    return true;
  }
  if (landing.is_refused || (landing.carriage == carriage::shown && at.on->end_of_reads())) {
    refuse(landing);
    report_end(at.instance, *at.on->end_of_reads());
    return false;
  }
  const std::byte* const payload = landing.carriage == carriage::shown ? what.data : landing.memory;
  if (at.spec.in_place && !what.null) {
    landing.phase = slot::phase::held;
    out.data = payload;
    return true;
  }
  if (what.bytes > into.bytes)
    out.data = nullptr;
  else if (!what.null && what.bytes > 0 && expect(into.memory != nullptr, at, round, "received without a target"))
    std::memcpy(into.memory, payload, what.bytes);
  consume(*at.on, landing);
  return true;
}

void inproc_endpoint::refuse(slot& landing) {
  landing.carriage = carriage::copied;
  landing.is_claimed = false;
  landing.is_refused = true;
}

// Gives up the receiver's claim on the source of a message.
void inproc_endpoint::let_go(slot& landing) {
  if (landing.is_claimed) refuse(landing);
}

void inproc_endpoint::consume(edge& it, slot& landing) {
  const bool shown = landing.carriage == carriage::shown;
  if (!landing.what.null && landing.what.bytes > 0) std::memset(landing.memory, k_released_pattern, landing.what.bytes);
  landing.phase = slot::phase::empty;
  landing.carriage = carriage::copied;
  it.consumed = landing.round;
  if (shown || it.receiver.credits) world_.depart(it, flight::kind::credit, landing.round);
}

// A null message holds no memory, so its release is allowed but not required.
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
  const inproc::wait& waited = links_[on.receiver.link].wait;
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
  inproc::wait& it = links_[link].wait;
  if (it.kind == waits::nothing) return;
  if (it.due) std::erase(queue_, link);
  it = {};
  --waiting_;
}

std::size_t inproc_endpoint::poll(std::span<completion> out) {
  world_.tick();
  find_given_up();
  const std::size_t found = std::min(out.size(), queue_.size());
  std::size_t kept = 0;
  for (std::size_t i = 0; i < found; ++i) {
    link_state& it = links_[queue_[i]];
    const inproc::wait done = std::exchange(it.wait, {});
    --waiting_;
    out[kept] = {it.spec.cookie, done.round, {}};
    if (done.kind != waits::arrival || take(it, done.round, it.into, out[kept].what)) ++kept;
  }
  queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(found));
  return kept;
}

// Returns true if the cause of the awaited event is already in flight. The event then happens without further calls.
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
  for (rank peer = 0; peer < place().size; ++peer)
    if (presence_of(peer) == presence::dead) return peer;
  for (const link_state& it : links_)
    if (it.on != nullptr && presence_of(it.spec.peer) == presence::closed && !can_be_satisfied(it)) return it.spec.peer;
  return k_no_rank;
}

}  // namespace lsched
