// The attached edges of this rank, with their memory and their state.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "libsched/transport/endpoint.h"
#include "libsched/transport/net/frame.h"

namespace lsched {

/// A message that has arrived or was announced, and that the receiver has not taken. In synchronising schedules, two
/// cells suffice, because no rank is more than one round ahead. In all other schedules, the sender waits for credits,
/// and a link has three cells. So the receiver need not send the credit of the last consumed message: the sender may be
/// two rounds ahead of the receiver without that credit. This credit then travels with other bytes, or with the next
/// credit.
struct net_cell {
  enum class content : std::uint8_t { nothing, whole, announced };
  content has = content::nothing;
  round_no round = 0;
  message_head what{};
  std::byte* payload = nullptr;  ///< memory of the link, for payloads of the control socket
};

/// The state of one end of an edge. The sender's end does not use the members for incoming payloads. The receiver's end
/// does not use the members for outgoing payloads.
struct net_link {
  enum class wait : std::uint8_t {
    nothing,
    turn,     ///< sender: for the credit of an earlier round
    ready,    ///< sender: until the receiver is ready, or refuses the message
    stream,   ///< sender: until the bulk socket has taken the payload
    message,  ///< receiver: for the message
    signal,   ///< receiver: for the register
  };

  edge_spec spec{};
  std::uint32_t own_instance = 0;
  std::uint32_t instance = 0;  ///< the peer's id of the instance; set by link()
  std::uint32_t index = 0;     ///< frame::index
  bool credits = false;
  bool is_live = false;  ///< false after abandon() or cancel()
  wait wait_for = wait::nothing;
  bool is_due = false;  ///< the awaited event has happened but was not reported yet
  round_no round = 0;   ///< round of the awaited event

  // The register of a signal edge, and the credits of a payload edge. Values only grow.
  std::uint64_t value = 0;    ///< highest value that was received or is to be sent
  std::uint64_t ready = 0;    ///< highest round for which the receiver is ready
  std::uint64_t refused = 0;  ///< highest round whose message the receiver has refused
  bool has_news = false;      ///< this rank has changed one of the three values, but has not sent the change
  std::uint64_t sent_value = 0, sent_ready = 0, sent_refused = 0;  ///< the values that the peer knows

  // Outgoing payload.
  message outgoing{};

  // Incoming payload.
  std::array<net_cell, 3> cells{};  ///< the third cell is only used with credits
  std::byte* landing = nullptr;     ///< memory for in-place payloads that are longer than a cell
  message_target into{};
  arrival incoming{};
  round_no withdrawn = 0;  ///< last round whose receive was withdrawn by disarm()
  /// The peer sends no message after this round.
  round_no last = std::numeric_limits<round_no>::max();
  std::uint64_t moved = 0;       ///< number of bytes of the payload that have arrived on the bulk socket
  bool lands_in_target = false;  ///< the payload that arrives on the control socket goes to `into`, not to a cell

  std::size_t cell_count() const { return credits ? 3 : 2; }
  net_cell& cell_of(round_no of) { return cells[of % cell_count()]; }
  /// Returns whether the receiver has a free cell for the message of a round.
  bool may_send(round_no of) const { return !credits || of <= cell_count() || value >= of - cell_count(); }
  bool is_large(std::uint64_t bytes) const { return bytes > k_small_bytes; }
  /// Returns whether a payload waits to be sent, or is being sent on the bulk socket.
  bool is_sending() const {
    return !is_due && (wait_for == wait::turn || wait_for == wait::ready || wait_for == wait::stream);
  }
  /// Returns the memory into which the payload of a round is read from the bulk socket.
  std::byte* target_of(round_no of) {
    if (!spec.in_place) return into.memory;
    return landing != nullptr ? landing : cell_of(of).payload;
  }
};

class net_links {
 public:
  explicit net_links(rank ranks) : ranks_(ranks) {}

  std::size_t size() const { return links_.size(); }
  net_link& operator[](link_id link) { return links_[link]; }
  const net_link& operator[](link_id link) const { return links_[link]; }

  // The following functions implement the functions of `endpoint` that have the same names.
  result<std::vector<link_id>> attach(std::uint32_t id, std::span<const rank> members, bool credits,
                                      std::span<const edge_spec> edges);
  member_address address_of(std::uint32_t id) const { return {.far = id}; }
  void detach(std::uint32_t id);

  /// Returns true if the instance is attached but not linked.
  bool is_unlinked(std::uint32_t id) const;
  std::size_t members_of(std::uint32_t id) const { return blocks_.at(id).members.size(); }
  /// Links an instance: stores the ids that the peers have given to the instance.
  void link(std::uint32_t id, std::span<const member_address> all);

  /// Returns the links of an instance. Returns an empty span if the instance is not attached.
  std::span<const link_id> of(std::uint32_t id) const;
  /// Returns one link for each peer of an instance.
  std::vector<link_id> link_to_each_peer(std::uint32_t id) const;

  /// Returns the link to which a frame of `peer` refers, or k_no_link if this rank has no such link any more.
  /// `outgoing`: the direction at this rank.
  link_id find(std::uint32_t id, rank peer, bool outgoing, std::uint32_t index) const;

  /// Marks an instance as ended early. Returns false if the instance is already marked, or is not attached.
  bool end(std::uint32_t id, const end_reason& reason);
  const std::optional<end_reason>& end_of(std::uint32_t id) const { return blocks_.at(id).ended; }

  /// Returns whether a payload of the instance was abandoned before the kernel took all of its bytes.
  bool has_unsent(std::uint32_t id) const { return blocks_.at(id).has_unsent; }
  void note_unsent(std::uint32_t id) { blocks_.at(id).has_unsent = true; }

  /// Returns the largest number of bytes that a link may occupy in the control socket's buffer. The bytes belong to
  /// small messages and records.
  static std::size_t control_bytes_of(const net_link& of);

 private:
  struct freer {
    void operator()(std::byte* place) const { std::free(place); }
  };
  struct block {
    std::unique_ptr<std::byte, freer> bytes{};
    std::vector<rank> members;
    std::vector<link_id> links{};
    std::unordered_map<std::uint64_t, std::vector<link_id>> numbered{};  ///< by key_of() and then by index
    bool is_linked = false;
    bool has_unsent = false;
    std::optional<end_reason> ended{};
  };

  static std::uint64_t key_of(rank peer, bool outgoing) {
    return static_cast<std::uint64_t>(peer) << 1 | (outgoing ? 1 : 0);
  }
  link_id add(std::uint32_t id, bool credits, const edge_spec& edge);
  bool reserve_memory(block& held);
  void enumerate(block& held);
  void free_links_of(const block& held);

  rank ranks_;
  std::vector<net_link> links_;
  std::vector<link_id> free_links_;
  std::unordered_map<std::uint32_t, block> blocks_;
};

}  // namespace lsched
