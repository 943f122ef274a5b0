// This file defines the values that an endpoint sends, receives and reports (endpoint.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "ops/base.h"
#include "ops/saturating.h"
#include "ops/status.h"

namespace lsched {

/// The contributors of a value. The count travels with the value and is merged wherever values are combined. At the end
/// of an allreduce the count is equal on all ranks, so the reports of the round are equal too.
struct contributor_count {
  std::uint32_t contributors = 0;  ///< ranks whose contribution the value contains
  rank leaver = k_no_rank;         ///< highest rank whose departure is not agreed upon yet; k_no_rank: none
  /// Sum of the weights of the offers that the value contains, at most 2^64-1. For a mailbox message: the tag.
  std::uint64_t offers = 0;
  friend bool operator==(const contributor_count&, const contributor_count&) = default;
};

constexpr contributor_count merge(const contributor_count& x, const contributor_count& y) {
  return {x.contributors + y.contributors, x.leaver > y.leaver ? x.leaver : y.leaver,
          saturating_sum(x.offers, y.offers)};
}

/// A message to send. If `null` is true, the message means "no contribution", and no payload is sent.
struct message {
  const std::byte* data = nullptr;
  std::uint64_t bytes = 0;
  contributor_count tally{};
  bool null = false;
  /// If not 0, the location of the payload in device memory. The receiver finds the payload by this value
  /// (device_memory.h).
  std::uint64_t shown = 0;
};

/// The memory for an incoming message, and its size.
struct message_target {
  /// If `room` is not given, the memory must have at least the capacity of the edge.
  message_target(std::byte* begin = nullptr, std::uint64_t room = ~std::uint64_t{0}) : memory(begin), bytes(room) {}
  std::byte* memory;
  std::uint64_t bytes;
};

/// A message that has arrived. `data` is the target that was passed to receive(), or memory of the transport or of the
/// peer. Memory of the transport or of the peer stays valid and unchanged until release(). If the message is longer
/// than its target, the message is dropped and `data` is null.
struct arrival {
  const std::byte* data = nullptr;
  std::uint64_t bytes = 0;
  contributor_count tally{};
  bool null = false;
  /// If not 0, the location of the payload in the sender's device memory, which stays valid until release(). `data` is
  /// then null.
  std::uint64_t shown = 0;
};

/// The id of this rank's end of one edge of one instance.
using link_id = std::uint32_t;
inline constexpr link_id k_no_link = ~link_id{0};

struct edge_spec {
  bool outgoing = false;
  bool signal = false;
  bool foreign = false;  ///< outgoing: the source may be memory that is not from allocate()
  /// Outgoing: id of the source. Edges of the same attach() that have the same nonzero id send the same bytes in a
  /// round.
  std::uint32_t source = 0;
  bool in_place = false;      ///< incoming: the payload is read in place until release and needs no target
  bool reads_device = false;  ///< incoming, in place: the payload may be in device memory of the sender
  bool announced = false;     ///< incoming: receive returns only the header, and fetch returns the payload
  rank peer = k_no_rank;
  std::uint32_t tag = 0;
  /// Maximum length of a message in bytes. Edges of mailboxes have a capacity of 2^45 bytes, so a transport must not
  /// reserve memory for the capacity if `grows` (outgoing) or `announced` (incoming) is set.
  std::uint64_t capacity = 0;
  bool grows = false;  ///< outgoing: no staging memory is reserved, because messages are usually short or not foreign
  std::uint64_t cookie = 0;  ///< returned with completions
};

/// The reason why a rank has ended an instance early.
struct end_reason {
  rank who = k_no_rank;            ///< rank that has cancelled the instance, or the culprit of a failure
  status why = status::cancelled;  ///< cancelled, or the failure, for example PEER
  friend bool operator==(const end_reason&, const end_reason&) = default;

  /// Packs the reason into a word that is never 0.
  constexpr std::uint32_t packed() const {
    return static_cast<std::uint32_t>(-static_cast<int>(why)) << k_rank_bits | static_cast<std::uint32_t>(who + 1);
  }
  static constexpr end_reason unpack(std::uint32_t word) {
    const auto why = -static_cast<int>(word >> k_rank_bits);
    return {static_cast<rank>(word & ((std::uint32_t{1} << k_rank_bits) - 1)) - 1, static_cast<status>(why)};
  }
  static constexpr int k_rank_bits = 24;
};

/// The report that a rank has ended an instance.
struct cancellation {
  std::uint32_t instance = 0;  ///< id of the instance on this rank
  end_reason reason{};
  /// True if the report is about a departure. This rank then waits for rank `reason.who`, which has detached the
  /// instance.
  bool is_departure = false;
  /// For a departure, the last round whose message may still be in flight. Empty if all messages have arrived.
  std::optional<round_no> last{};
};

struct completion {
  std::uint64_t cookie = 0;
  round_no round = 0;  ///< round for which the operation was posted or armed
  arrival what{};      ///< set for receives only
};

}  // namespace lsched
