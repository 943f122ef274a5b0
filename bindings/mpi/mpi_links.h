// The attached edges of this rank, with their memory and tags. All edges to one peer share a state (mpi_stream).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "bindings/mpi/mpi_tags.h"
#include "libsched/transport/endpoint.h"

namespace lsched {

/// The messages of an edge between two ranks, and the memory that MPI uses for them.
namespace mpi_edge {

/// Maximum size of a payload that is sent in one message with its header.
inline constexpr std::uint64_t k_bounce_bytes = 16384;

struct freer {
  void operator()(std::byte* place) const { std::free(place); }
};
using memory = std::unique_ptr<std::byte, freer>;

struct header {
  std::uint64_t round;
  std::uint64_t bytes;
  contributor_count tally;
  std::uint32_t null;
  std::uint32_t instance;  ///< id of the instance on the receiver
  std::uint32_t unused[6];
};
static_assert(sizeof(header) == 64);

constexpr std::uint64_t bounce_bytes(const edge_spec& edge) {
  return sizeof(header) + (std::min(edge.capacity, k_bounce_bytes) + 63) / 64 * 64;
}

constexpr bool needs_landing(const edge_spec& edge) { return edge.in_place && edge.capacity > k_bounce_bytes; }

/// Returns the size in bytes of the buffers that this rank allocates for its end of an edge.
constexpr std::uint64_t own_bytes(const edge_spec& edge) {
  if (edge.signal) return 0;
  if (edge.outgoing) return 2 * bounce_bytes(edge);
  return bounce_bytes(edge) + (needs_landing(edge) ? (edge.capacity + 63) / 64 * 64 : 0);
}

/// Returns the sort key of an edge. Both ranks of a pair enumerate their common edges in this order, signals first.
constexpr auto order_of(const edge_spec& edge) { return std::tuple(edge.peer, !edge.signal, edge.tag, edge.outgoing); }

/// Returns true if this rank sends control records for the edge: outgoing signals, or credits for incoming payload.
constexpr bool sends_control_for(const edge_spec& edge, bool credits) {
  return edge.signal ? edge.outgoing : credits && !edge.outgoing;
}

constexpr bool receives_control_for(const edge_spec& edge, bool credits) {
  return edge.signal ? !edge.outgoing : credits && edge.outgoing;
}

}  // namespace mpi_edge

/// The state that the edges between this rank and one peer share. The object must not be moved, because MPI uses its
/// address.
struct mpi_stream {
  struct control_record {
    std::uint32_t instance;  ///< id of the instance on the receiver
    std::uint32_t index;     ///< index among the control edges of the instance in this direction
    std::uint64_t value;
  };
  // Special values of `index`:
  static constexpr std::uint32_t k_last = ~std::uint32_t{0};  ///< last record; `value`: number of all other messages
  static constexpr std::uint32_t k_cancelled = k_last - 1;    ///< the instance has ended; `value`: result of pack()
  static constexpr std::uint32_t k_left = k_last - 2;         ///< `value` is the last round with a message on the edge
  /// Reply to k_cancelled: the sender of the reply no longer uses messages of the instance.
  static constexpr std::uint32_t k_answered = k_last - 3;
  static constexpr std::size_t k_batch_records = 64;

  /// Returns the `value` for k_cancelled: the reason, and the id of the instance on the sender.
  static constexpr std::uint64_t pack(const end_reason& reason, std::uint32_t own_instance) {
    return std::uint64_t{own_instance} << 32 | reason.packed();
  }
  static constexpr end_reason reason_in(std::uint64_t packed) {
    return end_reason::unpack(static_cast<std::uint32_t>(packed));
  }

  /// State of the control stream from the peer.
  enum class listening : std::uint8_t {
    not_yet,  ///< no linked instance has had edges with the peer
    posted,   ///< a receive is posted
    ended,    ///< the peer's last record has arrived
  };

  rank peer = k_no_rank;
  bool is_sending = false;  ///< a batch is in flight
  enum listening listening = listening::not_yet;
  std::uint64_t sent = 0;       ///< number of MPI messages to the peer, except control records
  std::uint64_t taken = 0;      ///< number of MPI messages from the peer, except control records
  std::uint64_t announced = 0;  ///< the peer's `sent`, according to its last record
  std::unordered_map<std::uint32_t, std::vector<link_id>> receivers;  ///< links, indexed by instance and index
  std::array<control_record, k_batch_records> outgoing;
  std::array<control_record, k_batch_records> incoming;

  /// Reserves capacity for `more` records beyond those in the table.
  void reserve(std::size_t more) { pending_.reserve(pending_.size() + more); }

  /// Adds a record to the table, and returns the record's serial number. If record `number` is still in the table,
  /// replaces only the value of that record.
  std::uint64_t put(const control_record& news, std::uint64_t number = 0);

  /// Moves as many records as fit from the table to `outgoing`. Returns the number of moved records.
  std::size_t next_batch();

 private:
  std::uint64_t first_pending_ = 1;  ///< serial number of pending_.front(); serial numbers only grow
  std::vector<control_record> pending_;
};

struct mpi_link {
  enum class wait : std::uint8_t { nothing, turn, chunks, message, signal };

  edge_spec spec{};
  std::uint32_t own_instance = 0;
  std::uint32_t instance = 0;  ///< id of the instance on the peer; set by link()
  bool credits = false;
  bool is_live = false;  ///< false after abandon or detach; MPI may still use the link's memory
  int tag = 0;
  std::uint32_t control_index = 0;
  std::byte* bounce[2] = {nullptr, nullptr};  ///< outgoing: for even and odd rounds; incoming: only the first
  std::byte* landing = nullptr;               ///< incoming: buffer for large payloads that ops read directly
  bool is_bounce_busy[2] = {false, false};
  std::uint32_t in_flight = 0;   ///< number of requests of this link
  std::uint32_t chunks = 0;      ///< number of requests in flight for chunks, which use the caller's memory
  bool is_answered = false;      ///< the peer has replied to k_cancelled
  std::uint64_t value = 0;       ///< newest signal or credit that was received or sent
  std::uint64_t pending_at = 0;  ///< serial number of the link's record in the stream's table
  wait wait_for = wait::nothing;
  bool is_due = false;  ///< the awaited event has happened but was not reported yet
  round_no round = 0;   ///< round of the awaited event
  message outgoing{};
  arrival incoming{};
  message_target into{};
  std::uint64_t moved = 0;  ///< number of payload bytes whose chunks are in flight or complete
};

class mpi_links {
 public:
  /// Payload messages get tags from `first_tag` to `last_tag`.
  mpi_links(rank ranks, int first_tag, int last_tag)
      : streams_(static_cast<std::size_t>(ranks)), tags_(first_tag, last_tag) {}

  std::size_t size() const { return links_.size(); }
  mpi_link& operator[](link_id link) { return links_[link]; }
  const mpi_link& operator[](link_id link) const { return links_[link]; }

  /// Returns the streams, indexed by rank. An entry is null if this rank has had no edge with that rank.
  const std::vector<std::unique_ptr<mpi_stream>>& streams() const { return streams_; }
  mpi_stream& stream_to(rank peer);
  mpi_stream& stream_of(link_id link) { return *streams_[static_cast<std::size_t>(links_[link].spec.peer)]; }

  /// These functions implement the functions of `endpoint` with the same names.
  result<std::vector<link_id>> attach(std::uint32_t id, std::span<const rank> members, bool credits,
                                      std::span<const edge_spec> edges);
  member_address address_of(std::uint32_t id) const;

  /// Returns the maximum number of requests that may be in flight.
  std::size_t most_requests() const;

  /// Returns true if the instance is attached but not linked.
  bool is_unlinked(std::uint32_t id) const;
  std::size_t members_of(std::uint32_t id) const { return blocks_.at(id).members.size(); }

  /// Links an instance: stores the id that the instance has on each peer, and the tags that the peers have chosen.
  void link(std::uint32_t id, std::span<const member_address> all);

  /// Returns, for each peer of an attached instance, one link to that peer.
  std::vector<link_id> link_to_each_peer(std::uint32_t id) const;

  /// Marks an instance as ended early. Returns false if it is already marked or not attached.
  bool end(std::uint32_t id, const end_reason& reason);
  const std::optional<end_reason>& end_of(std::uint32_t id) const { return blocks_.at(id).ended; }

  /// Returns the links of an instance. Returns an empty span if it is not attached.
  std::span<const link_id> of(std::uint32_t id) const;
  /// Detaches an instance. `is_clean`: no message of the instance is in flight or will be sent.
  void detach(std::uint32_t id, bool is_clean);

  /// Leaks all memory that MPI may still use.
  void abandon();

 private:
  struct block {
    mpi_edge::memory bytes;
    std::vector<rank> members;
    std::vector<link_id> links;
    mpi_tags::range tags{};  ///< tags of incoming messages, equal for all peers
    bool is_linked = false;
    std::optional<end_reason> ended{};
  };

  link_id add(std::uint32_t id, bool credits, const edge_spec& edge);
  bool reserve_memory(block& held);
  void assign_tags(const block& held, bool outgoing, const std::function<int(rank peer)>& first_tag_of);
  void enumerate_control(std::uint32_t id, const block& held);
  std::vector<link_id> sorted(const block& held) const;
  void reap();

  std::vector<std::unique_ptr<mpi_stream>> streams_;
  std::vector<mpi_link> links_;
  std::vector<link_id> free_links_;
  std::unordered_map<std::uint32_t, block> blocks_;
  std::vector<block> retired_;  ///< detached blocks whose memory MPI may still use
  mpi_tags tags_;
};

}  // namespace lsched
