// What the endpoints of an inproc world share: what they have attached, the edges between the ranks, what is under way
// on them, the boards, and the clock.
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

/// A rank's end of an instance, by that rank's own number.
struct end_name {
  rank who;
  std::uint32_t id;
  auto operator<=>(const end_name&) const = default;
};

/// An instance as the ranks see it that have it attached: each its own, until one of them links it; then all the same.
struct instance {
  std::vector<end_name> ends;  ///< by rank of the world; none: nobody has linked it
  std::optional<end_reason> given_up;
  std::uint64_t given_up_at = 0;
};

/// What a rank has attached.
struct attachment {
  std::vector<rank> members;  ///< home ranks, by rank of the world
  bool credits = false;
  std::vector<edge_spec> edges;
  std::vector<link_id> links;  ///< one for each edge
  std::shared_ptr<instance> of = std::make_shared<instance>();
  bool is_told = false;  ///< that the instance has ended
};

/// Both ends name an edge by this; signals and payloads are different edges.
struct edge_name {
  std::uint32_t instance;  ///< by the target's number
  rank source;
  rank target;
  std::uint32_t tag;
  bool signal;
  auto operator<=>(const edge_name&) const = default;
};

/// How the payload of one message travels.
enum class carriage : std::uint8_t {
  copied,  ///< copied when sent
  late,    ///< claimed on its way, and read from the source on arrival
  shown,   ///< read from the source until released
};

/// A landing slot. A message occupies it from its departure until it was consumed.
struct slot {
  enum class phase : std::uint8_t { empty, flying, arrived, held };
  enum phase phase = phase::empty;
  enum carriage carriage = carriage::copied;
  bool is_claimed = false;  ///< late: the source is being read
  bool is_refused = false;  ///< the source could not be read any more
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
  std::shared_ptr<const instance> of;
  std::optional<end_reason> closed;  ///< by the sender

  /// The reason why no peer may begin to read the sender's memory any more, if there is one.
  const std::optional<end_reason>& end_of_reads() const { return closed ? closed : of->given_up; }

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
  enum class kind : std::uint8_t { claim, payload, signal, credit };
  std::uint64_t due;
  std::uint64_t number;  ///< of departure: decides between equals
  edge* on;
  round_no round;
  enum kind kind;

  friend bool operator>(const flight& x, const flight& y) {
    return std::pair(x.due, x.number) > std::pair(y.due, y.number);
  }
};

/// How a commit has ended.
struct settlement {
  std::uint64_t number = 0;
  rank missing = k_no_rank;  ///< whom it was given up for; k_no_rank: it stands
};

/// What a member shows on its board. Two records are kept: a rank may be one exchange ahead.
struct board_page {
  rank owner = k_no_rank;
  std::size_t most = 0;  ///< members; 0: it is a home board, and not joined by its address
  bool is_closed = false;
  std::uint64_t posted = 0;  ///< the commit of its newest record
  std::uint64_t passed = 0;  ///< the last commit whose end it has seen
  std::array<std::array<std::byte, board::record_bytes>, 2> records{};
  std::array<settlement, 2> settled{};  ///< of the world's first rank alone
  std::vector<member_address> met{};    ///< of an offer: the boards of all, once they have been found
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
  std::vector<inproc::flight> flights;                           ///< a heap; its room is reserved by link()
  std::deque<inproc::board_page> boards;                         ///< the home boards first, by rank; all stay
  std::map<std::pair<std::uint64_t, rank>, std::size_t> offers;  ///< by key and rank: the board's index
  bool has_given_up = false;                                     ///< any instance
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
