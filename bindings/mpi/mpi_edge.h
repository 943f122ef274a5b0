// What travels between two ranks for an edge, and how much memory MPI works in for it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <tuple>

#include "libsched/transport/endpoint.h"

namespace lsched::mpi_edge {

/// Payloads up to this size travel with their header.
inline constexpr std::uint64_t k_bounce_bytes = 16384;
inline constexpr std::uint64_t k_most_bytes = std::uint64_t{1} << 47;

struct freer {
  void operator()(std::byte* place) const { std::free(place); }
};
using memory = std::unique_ptr<std::byte, freer>;

/// Aligned for any vector; null if there is no memory.
inline std::byte* allocate_aligned(std::uint64_t bytes) {
  if (bytes > k_most_bytes) return nullptr;
  return static_cast<std::byte*>(std::aligned_alloc(64, (std::max<std::uint64_t>(bytes, 1) + 63) / 64 * 64));
}

struct header {
  std::uint64_t round;
  std::uint64_t bytes;
  contributor_count tally;
  std::uint32_t null;
  std::uint32_t unused[7];
};
static_assert(sizeof(header) == 64);

constexpr std::uint64_t bounce_bytes(const edge_spec& edge) {
  return sizeof(header) + (std::min(edge.capacity, k_bounce_bytes) + 63) / 64 * 64;
}

constexpr bool needs_landing(const edge_spec& edge) { return edge.in_place && edge.capacity > k_bounce_bytes; }

/// Bytes that MPI reads or writes on behalf of an edge.
constexpr std::uint64_t own_bytes(const edge_spec& edge) {
  if (edge.signal) return 0;
  if (edge.outgoing) return 2 * bounce_bytes(edge);
  return bounce_bytes(edge) + (needs_landing(edge) ? (edge.capacity + 63) / 64 * 64 : 0);
}

/// Both ends of a pair enumerate its edges in this order, signals first.
constexpr auto order_of(const edge_spec& edge) { return std::tuple(edge.peer, !edge.signal, edge.tag, edge.outgoing); }

/// Whether this rank speaks on the control stream for the edge: its signals out, and credits for payload in.
constexpr bool speaks_for(const edge_spec& edge, bool credits) {
  return edge.signal ? edge.outgoing : credits && !edge.outgoing;
}

constexpr bool hears_for(const edge_spec& edge, bool credits) {
  return edge.signal ? !edge.outgoing : credits && edge.outgoing;
}

}  // namespace lsched::mpi_edge
