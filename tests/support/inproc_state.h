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

/// Identifies one rank's end of an instance. Each rank has its own id for the instance.
struct end_name {
  rank who;
  std::uint32_t id;
  auto operator<=>(const end_name&) const = default;
};

/// The state of an instance of a schedule. Before a member links the instance, each attachment has its own state
/// object. Afterwards all attachments share one object.
struct instance {
  std::vector<end_name> ends;  ///< ends of all members, by rank of the world; empty before a member links the instance
  std::optional<end_reason> given_up;
  std::uint64_t given_up_at = 0;
};

/// A rank's attachment to an instance.
struct attachment {
  std::vector<rank> members;  ///< members of the world, as ranks of the home world (the world of all ranks)
  bool credits = false;
  std::vector<edge_spec> edges;
  std::vector<link_id> links;  ///< links of `edges`, in the same order
  std::shared_ptr<instance> of = std::make_shared<instance>();
  bool is_told = false;  ///< whether the rank has received the report that the instance has ended
};

/// The name of an edge, equal at both ends. Signals and payloads have different edges.
struct edge_name {
  std::uint32_t instance;  ///< id that the target rank has given to the instance
  rank source;
  rank target;
  std::uint32_t tag;
  bool signal;
  auto operator<=>(const edge_name&) const = default;
};

/// The way in which the payload of a message travels.
enum class carriage : std::uint8_t {
  copied,  ///< copied when sent
  late,    ///< claimed while the message is in flight, and read from the source on arrival
  shown,   ///< read from the source until released
};

/// A landing slot. A message occupies the slot from the departure of the message until the receiver has consumed it.
struct slot {
  enum class phase : std::uint8_t { empty, flying, arrived, held };
  enum phase phase = phase::empty;
  enum carriage carriage = carriage::copied;
  bool is_claimed = false;  ///< only for `late`: whether the receiver is reading the source
  bool is_refused = false;  ///< whether the source may no longer be read
  round_no round = 0;
  message what{};
  std::byte* memory = nullptr;
};

/// The event for which a link waits. A link waits for one event at a time.
struct wait {
  enum class kind : std::uint8_t { nothing, arrival, credit, delivery, consumption, signal };
  enum kind kind = kind::nothing;
  bool due = false;  ///< whether the event has happened, so that the link is in the queue of completions
  round_no round = 0;
};

/// Maximum length of a payload in bytes, also on edges of mailboxes, whose capacity is much larger.
inline constexpr std::uint64_t k_most_payload = std::uint64_t{64} << 20;

class edge;

/// One end of an edge.
struct edge_end {
  bool attached = false;  ///< whether the end was ever attached; stays true after it has detached
  bool detached = false;
  bool credits = false;
  std::uint64_t capacity = 0;
  link_id link = k_no_link;

  bool is_live() const { return attached && !detached; }
};

/// A one-way connection between two ranks. An edge for payloads has two landing slots: one for even and one for odd
/// rounds. An edge for signals has the value of the latest signal.
class edge {
 public:
  explicit edge(const edge_name& its_name) : name(its_name) {}

  const edge_name name;
  edge_end sender;
  edge_end receiver;
  std::shared_ptr<const instance> of;
  std::optional<end_reason> closed;  ///< set when the sender closes its memory to readers

  /// If peers may not begin further reads of the sender's memory, returns the reason.
  const std::optional<end_reason>& end_of_reads() const { return closed ? closed : of->given_up; }

  std::array<slot, 2> slots{};
  std::unique_ptr<std::byte[]> memory;  ///< memory of both slots
  round_no sent = 0;                    ///< last round that departed
  round_no received = 0;                ///< last round that the receiver has requested
  round_no consumed = 0;                ///< last round that the receiver has consumed
  round_no credited = 0;                ///< last round whose credit has reached the sender
  message delayed{};                    ///< message that waits for a credit

  round_no raised = 0;  ///< latest value of the signal that the sender has raised
  round_no value = 0;   ///< latest value of the signal that the receiver has seen
  std::array<round_no, 2> flying_values{};
  std::uint32_t flying = 0;

  std::uint64_t last_arrival = 0;  ///< earliest arrival of the next message
  std::uint64_t last_credit = 0;
};

/// A message, signal or credit in flight.
struct flight {
  enum class kind : std::uint8_t { claim, payload, signal, credit };
  std::uint64_t due;
  std::uint64_t number;  ///< index of the departure; flights that are due at the same time arrive in this order
  edge* on;
  round_no round;
  enum kind kind;

  friend bool operator>(const flight& x, const flight& y) {
    return std::pair(x.due, x.number) > std::pair(y.due, y.number);
  }
};

/// The decision about a commit.
struct settlement {
  std::uint64_t number = 0;
  rank missing = k_no_rank;  ///< rank whose absence made the commit fail; k_no_rank if the commit succeeded
};

/// The data that a member publishes on its board. Two records are kept because a rank may be one exchange ahead.
struct board_page {
  rank owner = k_no_rank;
  std::size_t most = 0;  ///< maximum number of members; 0 for the board of the home world
  bool is_closed = false;
  std::uint64_t posted = 0;  ///< index of the commit to which the newest record belongs
  std::uint64_t passed = 0;  ///< index of the last commit whose decision the member has seen
  std::array<std::array<std::byte, board::record_bytes>, 2> records{};
  std::array<settlement, 2> settled{};  ///< decisions; valid only on the page of the world's first rank
  std::vector<member_address> met{};    ///< addresses of the members' boards, after all boards were found
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
  std::vector<inproc::flight> flights;                           ///< messages, signals and credits in flight, as a
                                                                 ///< heap; link() reserves the capacity
  std::deque<inproc::board_page> boards;                         ///< pages of all boards; the pages of the home world
                                                                 ///< come first, by rank; pages are never removed
  std::map<std::pair<std::uint64_t, rank>, std::size_t> offers;  ///< index of an offer's page, by key and rank
  bool has_given_up = false;                                     ///< whether any instance was ever given up
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
