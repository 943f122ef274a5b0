// The state that the endpoints of an inproc world share: attachments, edges between ranks, messages in flight, boards,
// and the clock.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "libsched/schedule/draw.h"
#include "libsched/transport/endpoint.h"
#include "tests/support/inproc.h"

namespace lsched {
namespace inproc {

/// The name of a rank's end of an instance. `id` is that rank's number of the instance.
struct end_name {
  rank who;
  std::uint32_t id;
  auto operator<=>(const end_name&) const = default;
};

/// The state of an instance. Each attachment has its own object until a member links the instance. Afterwards all
/// attachments share one object.
struct instance {
  std::vector<end_name> ends;  ///< by rank of the world; empty until a member links the instance
  std::optional<end_reason> given_up;
  std::uint64_t given_up_at = 0;
};

/// A rank's attachment to an instance.
struct attachment {
  std::vector<rank> members;  ///< home ranks, by rank of the world
  bool credits = false;
  std::vector<edge_spec> edges;
  std::vector<link_id> links;  ///< one per edge
  std::shared_ptr<instance> of = std::make_shared<instance>();
  bool is_told = false;  ///< the end of the instance was reported to the rank
};

/// The name of an edge, equal at both ends. Signals and payloads have different edges.
struct edge_name {
  std::uint32_t instance;  ///< the target's number
  rank source;
  rank target;
  std::uint32_t tag;
  bool signal;
  auto operator<=>(const edge_name&) const = default;
};

/// The way in which the payload of a message travels.
enum class carriage : std::uint8_t {
  copied,  ///< copied when sent
  late,    ///< claimed in flight, and read from the source on arrival
  shown,   ///< read from the source until released
};

/// A landing slot. A message occupies the slot from its departure until it is consumed.
struct slot {
  enum class phase : std::uint8_t { empty, flying, arrived, held };
  enum phase phase = phase::empty;
  enum carriage carriage = carriage::copied;
  bool is_claimed = false;  ///< `late` only: the source is being read
  bool is_refused = false;  ///< the source may no longer be read
  round_no round = 0;
  message what{};
  std::byte* memory = nullptr;
};

/// The event for which a link waits. A link waits for one event at a time.
struct wait {
  enum class kind : std::uint8_t { nothing, arrival, credit, delivery, consumption, signal };
  enum kind kind = kind::nothing;
  bool due = false;  ///< satisfied, and in the queue of completions
  round_no round = 0;
};

class edge;

/// One end of an edge.
struct edge_end {
  bool attached = false;  ///< at any time
  bool detached = false;
  bool credits = false;
  std::uint64_t capacity = 0;
  link_id link = k_no_link;

  bool is_live() const { return attached && !detached; }
};

/// A direction between two ranks: two landing slots by parity of the round, or a register of signals.
class edge {
 public:
  explicit edge(const edge_name& its_name) : name(its_name) {}

  const edge_name name;
  edge_end sender;
  edge_end receiver;
  std::shared_ptr<const instance> of;
  std::optional<end_reason> closed;  ///< set when the sender closes to readers

  /// Returns the reason why peers may not begin further reads of the sender's memory, if there is a reason.
  const std::optional<end_reason>& end_of_reads() const { return closed ? closed : of->given_up; }

  std::array<slot, 2> slots{};
  std::unique_ptr<std::byte[]> memory;  ///< memory of both slots
  round_no sent = 0;                    ///< last round that departed
  round_no received = 0;                ///< last round that the receiver has requested
  round_no consumed = 0;                ///< last consumed round, known to the receiver
  round_no credited = 0;                ///< last consumed round, known to the sender
  message delayed{};                    ///< message that waits for a credit

  round_no raised = 0;  ///< register at the sender
  round_no value = 0;   ///< register at the receiver
  std::array<round_no, 2> flying_values{};
  std::uint32_t flying = 0;

  std::uint64_t last_arrival = 0;  ///< earliest arrival of the next message
  std::uint64_t last_credit = 0;
};

/// A message, signal or credit in flight.
struct flight {
  enum class kind : std::uint8_t { claim, payload, signal, credit };
  std::uint64_t due;
  std::uint64_t number;  ///< number of the departure; breaks ties
  edge* on;
  round_no round;
  enum kind kind;

  friend bool operator>(const flight& x, const flight& y) {
    return std::pair(x.due, x.number) > std::pair(y.due, y.number);
  }
};

/// The end of a commit.
struct settlement {
  std::uint64_t number = 0;
  rank missing = k_no_rank;  ///< missing rank that made the commit fail; k_no_rank: success
};

/// The data that a member publishes on its board. Two records are kept because a rank may be one exchange ahead.
struct board_page {
  rank owner = k_no_rank;
  std::size_t most = 0;  ///< maximum number of members; 0: a home board, which is not joined by address
  bool is_closed = false;
  std::uint64_t posted = 0;  ///< commit of the newest record
  std::uint64_t passed = 0;  ///< last commit whose end the member has seen
  std::array<std::array<std::byte, board::record_bytes>, 2> records{};
  std::array<settlement, 2> settled{};  ///< used on the page of the world's first rank only
  std::vector<member_address> met{};    ///< boards of all members of an offer, after all have been found
};

}  // namespace inproc

class inproc_endpoint;

struct inproc_world::state {
  enum class presence : std::uint8_t { absent, open, closed, dead };
  struct seat {
    presence here = presence::absent;
    inproc_endpoint* user = nullptr;
  };

  std::uint64_t seed;
  inproc_options options;
  std::vector<seat> places;
  std::map<inproc::end_name, inproc::attachment> attached;
  std::map<inproc::edge_name, std::unique_ptr<inproc::edge>> edges;
  std::vector<inproc::flight> flights;                           ///< a heap; link() reserves capacity
  std::deque<inproc::board_page> boards;                         ///< home boards first, by rank; never removed
  std::map<std::pair<std::uint64_t, rank>, std::size_t> offers;  ///< index of the board, by key and rank
  bool has_given_up = false;                                     ///< an instance was given up
  std::uint64_t now = 0;
  std::uint64_t departures = 0;
  std::uint64_t draws = 0;
  std::string first_fault;

  inproc_endpoint* user_of(rank who) const { return places[static_cast<std::size_t>(who)].user; }
  bool has_left(rank who) const;
  void give_up(inproc::instance& what, const end_reason& reason);
  std::uint64_t draw() { return mix(mix(seed) ^ ++draws); }
  void depart(inproc::edge& on, enum inproc::flight::kind kind, round_no round);
  void arrive(const inproc::flight& what);
  void tick();
  bool connect(std::span<const rank> members, std::span<const member_address> all);
  void add_end(const inproc::edge_name& name, const inproc::attachment& of, std::size_t index);
  inproc::edge& find_or_add(const inproc::edge_name& name);
  void remove_if_unused(inproc::edge& it);
};

}  // namespace lsched
