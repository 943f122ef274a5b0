// This file defines the layout of the memory that an instance and its edges use in a rank's region.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "libsched/transport/endpoint.h"
#include "libsched/transport/shm/shm_claim.h"

namespace lsched {

/// Maximum size of a message that is copied to the receiver's cell (shm_cell). Longer messages are read in place.
inline constexpr std::uint64_t k_eager_bytes = 8192;

/// Messages up to this size are never read from the sender's process. Such a read saves a copy, but needs a system
/// call, and the sender has to wait. If two ranks send to each other from memory that peers do not map, such reads save
/// time above k_eager_bytes. If only one of the two ranks sends from such memory, the limit is k_one_way_bytes.
inline constexpr std::uint64_t k_one_way_bytes = 4096;

/// Location of a message's payload.
enum class payload_place : std::uint32_t { cell, segment, process, device };

/// The header that a sender writes for its message.
struct shm_message {
  std::uint64_t bytes;
  /// Location of a payload that is not in the cell. Depending on `place`, this is an offset in the segment, an address
  /// in the sender's process, or a place in device memory.
  std::uint64_t source;
  contributor_count tally;
  std::uint32_t null;
  payload_place place;
};

/// A landing cell, to which the sender copies a message. The cell is one cache line with the header and a small
/// payload. An area for larger payloads follows. The sender stores the stamp last, with release order. This store
/// publishes all other fields.
struct alignas(64) shm_cell {
  static constexpr std::uint64_t k_small = 16;

  std::atomic<std::uint64_t> stamp;
  shm_message what;
  std::byte small[k_small];

  std::byte* eager(std::uint64_t size) { return size <= k_small ? small : reinterpret_cast<std::byte*>(this + 1); }
};
static_assert(sizeof(shm_cell) == 64 && offsetof(shm_cell, small) == 48);

/// The description of a rank's end of an edge. The peer reads this description to connect its own end.
struct edge_row {
  std::int32_t peer;
  std::uint32_t tag;
  std::uint32_t outgoing;
  std::uint32_t signal;
  std::uint64_t reads_device;  ///< incoming payload: 1 if the payload may be in device memory
  std::uint64_t capacity;
  /// Incoming payload: size in bytes above which a payload outside of the segment is read from the sender's process.
  std::uint64_t read_above;
  /// Offset in the segment of the edge's memory. Incoming payload: the first cell. Outgoing payload: the word
  /// `consumed`, followed by the claim if has_claim() is true. Incoming signal: the register.
  std::uint64_t offset;
};

/// The head of a block. A block is the memory of one instance in a rank's region. After the head, the block has a byte
/// for each member of the world, a row for each edge, and the memory of the edges.
struct shm_block {
  end_word closed;
  std::uint32_t place_on_record;  ///< index in this rank's shm_record; k_places: the instance is not on record
  std::uint64_t rows;
  std::atomic<std::uint64_t> entered;  ///< last round for which the rank has called, if the instance is not on record

  /// Returns the byte of a member. A member that leaves the instance sets its byte, as its last store to this block.
  std::atomic<std::uint8_t>& left(std::size_t member) {
    return reinterpret_cast<std::atomic<std::uint8_t>*>(this + 1)[member];
  }

  std::span<edge_row> edges(std::uint64_t count, std::size_t members) {
    return {reinterpret_cast<edge_row*>(reinterpret_cast<std::byte*>(this) + bytes_for(0, members)), count};
  }

  static constexpr std::uint64_t bytes_for(std::uint64_t rows, std::size_t members) {
    return sizeof(shm_block) + (members + 7) / 8 * 8 + rows * sizeof(edge_row);
  }
};

constexpr std::uint64_t eager_capacity(std::uint64_t capacity) {
  if (capacity <= shm_cell::k_small) return 0;
  return (std::min(capacity, k_eager_bytes) + 63) / 64 * 64;
}

constexpr std::uint64_t cell_bytes(std::uint64_t capacity) { return sizeof(shm_cell) + eager_capacity(capacity); }

/// Returns true if the receiver may have to read messages of this edge in the sender's memory.
constexpr bool has_claim(const edge_spec& edge) { return !edge.signal && edge.capacity > k_one_way_bytes; }

/// Returns the number of bytes that a rank's end of an edge needs in the rank's region.
constexpr std::uint64_t own_bytes(const edge_spec& edge) {
  if (edge.signal) return edge.outgoing ? 0 : 64;
  if (!edge.outgoing) return 2 * cell_bytes(edge.capacity);
  return 64 + (has_claim(edge) ? sizeof(shm_claim) : 0);
}

/// Returns true if messages of this edge may need a staging copy. Such messages may be too large for the cell, and may
/// be in memory that peers do not map.
constexpr bool needs_staging(const edge_spec& edge) {
  return edge.outgoing && !edge.signal && edge.foreign && edge.capacity > k_eager_bytes;
}

/// Returns a flag for each rank. The flag is 1 if one of `edges` may send payloads to the rank from memory that peers
/// do not map (edge_spec::foreign).
inline std::vector<std::uint8_t> foreign_targets(std::span<const edge_spec> edges, rank ranks) {
  std::vector<std::uint8_t> is_target(static_cast<std::size_t>(ranks));
  for (const edge_spec& edge : edges)
    if (edge.outgoing && !edge.signal && edge.foreign) is_target[static_cast<std::size_t>(edge.peer)] = 1;
  return is_target;
}

}  // namespace lsched
