#include "tests/support/inproc.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "tests/support/inproc_endpoint.h"
#include "tests/support/inproc_state.h"

namespace lsched {

using inproc::carriage;
using inproc::edge;
using inproc::edge_end;
using inproc::edge_name;
using inproc::end_name;
using inproc::flight;
using inproc::slot;

inproc_world::inproc_world(rank ranks, std::uint64_t seed, inproc_options options) : state_(new state) {
  state_->seed = seed;
  state_->options = options;
  state_->places.resize(static_cast<std::size_t>(std::max(ranks, 1)));
  state_->boards.resize(state_->places.size());
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

void inproc_world::kill(rank who) { state_->places[static_cast<std::size_t>(who)].here = state::presence::dead; }

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

// Messages of one edge arrive in the order of departure. Messages of different edges arrive in random order.
void inproc_world::state::depart(edge& on, enum flight::kind kind, round_no round) {
  std::uint64_t& last = kind == flight::kind::credit ? on.last_credit : on.last_arrival;
  last = std::max(last, now + 1 + draw() % options.max_delay_steps);
  flights.push_back({last, ++departures, &on, round, kind});
  std::push_heap(flights.begin(), flights.end(), std::greater<>());
}

void inproc_world::state::arrive(const flight& what) {
  edge& on = *what.on;
  inproc_endpoint* const sender = on.sender.is_live() ? user_of(on.name.source) : nullptr;
  inproc_endpoint* const receiver = on.receiver.is_live() ? user_of(on.name.target) : nullptr;
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
    case flight::kind::claim: {
      slot& landing = on.slots[what.round % 2];
      const bool is_late = landing.carriage == carriage::late;
      landing.is_claimed = is_late && !on.end_of_reads();
      landing.is_refused = landing.is_refused || (is_late && !landing.is_claimed);
      return depart(on, flight::kind::payload, what.round);
    }
    case flight::kind::payload: {
      slot& landing = on.slots[what.round % 2];
      landing.phase = slot::phase::arrived;
      if (landing.carriage == carriage::late && landing.is_claimed) {
        std::memcpy(landing.memory, landing.what.data, landing.what.bytes);
        landing.carriage = carriage::copied;
        landing.is_claimed = false;
        if (sender != nullptr) sender->source_was_read(on);
      }
      if (receiver != nullptr) receiver->payload_arrived(on);
      return;
    }
  }
}

bool inproc_world::state::has_left(rank who) const {
  const presence here = places[static_cast<std::size_t>(who)].here;
  return here == presence::closed || here == presence::dead;
}

void inproc_world::state::give_up(inproc::instance& what, const end_reason& reason) {
  if (what.given_up) return;
  what.given_up = reason;
  what.given_up_at = now;
  has_given_up = true;
}

// Creates the edges of all members when the first rank links the instance. Therefore the landing slots exist before a
// fast rank sends. A slow rank finds both ends of an edge even if the fast rank has detached. Returns false if a member
// has not attached, or if the two ends of an edge do not match.
bool inproc_world::state::connect(std::span<const rank> members, std::span<const member_address> all) {
  const auto made = std::make_shared<inproc::instance>();
  std::vector<std::uint32_t> id_of(places.size());
  for (std::size_t m = 0; m < members.size(); ++m) {
    const end_name name{members[m], static_cast<std::uint32_t>(all[m].near)};
    const auto found = attached.find(name);
    if (found == attached.end() || !found->second.of->ends.empty() ||
        !std::ranges::equal(found->second.members, members))
      return false;
    id_of[static_cast<std::size_t>(name.who)] = name.id;
    made->ends.push_back(name);
  }
  for (const end_name& name : made->ends) {
    inproc::attachment& end = attached.at(name);
    if (!made->given_up) {
      made->given_up = end.of->given_up;
      made->given_up_at = end.of->given_up_at;
    }
    end.of = made;
    for (std::size_t i = 0; i < end.edges.size(); ++i) {
      const edge_spec& spec = end.edges[i];
      const rank source = spec.outgoing ? name.who : spec.peer;
      const rank target = spec.outgoing ? spec.peer : name.who;
      add_end({id_of[static_cast<std::size_t>(target)], source, target, spec.tag, spec.signal}, end, i);
    }
  }
  return true;
}

// Adds one end of an edge. A rank that died after it had attached counts as a peer that has detached.
void inproc_world::state::add_end(const edge_name& name, const inproc::attachment& of, std::size_t index) {
  const edge_spec& spec = of.edges[index];
  inproc_endpoint* const user = user_of(spec.outgoing ? name.source : name.target);
  if (user == nullptr && user_of(spec.peer) == nullptr) return;
  edge& on = find_or_add(name);
  on.of = of.of;
  (spec.outgoing ? on.sender : on.receiver) = {.attached = true,
                                               .detached = user == nullptr,
                                               .credits = of.credits,
                                               .capacity = spec.capacity,
                                               .link = of.links[index]};
  if (!spec.outgoing && !spec.signal) {
    const std::uint64_t bytes = std::min(spec.capacity, inproc::k_most_payload);
    on.memory = std::make_unique_for_overwrite<std::byte[]>(2 * bytes);
    on.slots[0].memory = on.memory.get();
    on.slots[1].memory = on.memory.get() + bytes;
  }
  if (user != nullptr) user->take_edge(of.links[index], on);
}

edge& inproc_world::state::find_or_add(const edge_name& name) {
  auto& place = edges[name];
  if (place == nullptr) {
    place = std::make_unique<edge>(name);
    const std::size_t needed = 4 * edges.size();  // each edge: two messages or signals, two credits
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

}  // namespace lsched
