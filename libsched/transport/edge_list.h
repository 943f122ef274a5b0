// Transports that exchange messages use these functions to handle the edges of an instance.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "libsched/transport/message.h"
#include "ops/base.h"
#include "ops/status.h"

namespace lsched {

/// The maximum total size of the buffers that a transport allocates for an instance. A process cannot address more.
inline constexpr std::uint64_t k_most_edge_bytes = std::uint64_t{1} << 47;

/// Returns an error if a transport of `ranks` ranks cannot attach these edges.
inline std::optional<failure> validate_edges(std::span<const edge_spec> edges, rank ranks) {
  for (const edge_spec& edge : edges) {
    if (edge.peer < 0 || edge.peer >= ranks)
      return failure{
          status::argument,
          "the schedule has a message to or from rank " + std::to_string(edge.peer) + ", which does not exist",
          edge.peer};
    if (edge.capacity > k_most_edge_bytes / 4)
      return failure{
          status::no_memory,
          "the schedule has a message of " + std::to_string(edge.capacity) + " bytes, which is larger than memory",
          edge.peer};
  }
  const auto order_of = [](const edge_spec& of) { return std::tuple(of.peer, of.signal, of.tag, of.outgoing); };
  std::vector<edge_spec> ordered(edges.begin(), edges.end());
  std::ranges::sort(ordered, {}, order_of);
  const auto twin = std::ranges::adjacent_find(ordered, {}, order_of);
  if (twin != ordered.end())
    return failure{status::argument, "two messages of the schedule have the same peer, tag and direction", twin->peer};
  return std::nullopt;
}

/// For each peer, returns one of the links to that peer. `peer_of` maps a link to its peer.
template <class PeerOf>
std::vector<link_id> one_link_per_peer(std::span<const link_id> links, PeerOf&& peer_of) {
  std::vector<link_id> some(links.begin(), links.end());
  std::ranges::sort(some, {}, peer_of);
  const auto again = std::ranges::unique(some, {}, peer_of);
  some.erase(again.begin(), again.end());
  return some;
}

}  // namespace lsched
