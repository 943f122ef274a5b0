// What the endpoints of an inproc world share: the edges between its ranks, what is under way on them, and the clock.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libsched/schedule/draw.h"
#include "libsched/transport/endpoint.h"
#include "tests/support/inproc.h"

namespace lsched {
namespace inproc {

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

}  // namespace inproc

class inproc_endpoint;

struct inproc_world::state {
  enum class presence : std::uint8_t { absent, open, closed, dead };
  struct seat {
    presence here = presence::absent;
    inproc_endpoint* user = nullptr;
    inproc::posted_records records;
  };

  std::uint64_t seed;
  inproc_options options;
  std::vector<seat> places;
  /// An instance that a rank has given up, and when.
  struct given_up_by {
    rank by;
    std::uint64_t since;
  };

  std::map<inproc::edge_name, std::unique_ptr<inproc::edge>> edges;
  std::map<std::uint32_t, given_up_by> given_up;  ///< by instance
  std::vector<inproc::flight> flights;            ///< a heap; its room is reserved at attach
  std::uint64_t now = 0;
  std::uint64_t departures = 0;
  std::uint64_t draws = 0;
  std::string first_fault;

  void give_up(std::uint32_t id, rank by) { given_up.try_emplace(id, given_up_by{by, now}); }
  std::uint64_t draw() { return mix(mix(seed) ^ ++draws); }
  void depart(inproc::edge& on, enum inproc::flight::kind kind, round_no round);
  void arrive(const inproc::flight& what);
  void tick();
  inproc::edge& find_or_add(const inproc::edge_name& name);
  void remove_if_unused(inproc::edge& it);
};

}  // namespace lsched
