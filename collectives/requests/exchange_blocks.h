// The blocks of an exchange, as one rank states them: the blocks that it sends, and the blocks that it receives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/algorithm/shape.h"
#include "ops/status.h"

namespace lsched {

/// The blocks that a rank sends, or the blocks that it receives, in order.
struct exchange_half {
  std::span<const std::uint64_t> counts{};
  std::span<const rank> peers{};  ///< empty: all ranks in order
  rank peer_of(std::size_t i) const { return peers.empty() ? static_cast<rank>(i) : peers[i]; }
};

/// Merges the sent and the received blocks of rank `self` into one list that keeps the order of both. The k-th block
/// that the rank sends to itself is the k-th block that it receives from itself. Returns ARGUMENT if these two blocks
/// differ in length, or if only one of them exists.
result<std::vector<exchanged_block>> merged_blocks(const exchange_half& sent, const exchange_half& received, rank self);

}  // namespace lsched
