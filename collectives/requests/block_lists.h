// The blocks of one round of a schedule with a capacity. The caller passes the memory, the counts and the displacements
// of the blocks with each round (lsched_start_with).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "libsched/engine/engine.h"
#include "ops/status.h"

namespace lsched {

/// The send side or the receive side of a round, as the caller states it. Without displacements, blocks are contiguous.
struct caller_lists {
  std::string_view side;  ///< "send" or "recv", the prefix of the side's members in lsched_counts
  const void* memory = nullptr;
  const std::uint64_t* counts = nullptr;
  const std::uint64_t* displacements = nullptr;
  std::uint64_t* received = nullptr;
};

/// The memory of a round, and memory for displacements. Displacements are computed if the caller gives none. The
/// caller keeps the objects between rounds, so that rounds do not allocate.
struct round_memory {
  binding& memory;
  std::vector<std::uint64_t>& input_begins;
  std::vector<std::uint64_t>& output_begins;
};

/// Reads the lists of a round. A rank has at most one input and one output. Returns ARGUMENT for missing counts or
/// memory, for counts of a buffer that this rank does not have, and for sides that overlap. Returns BOUNDS for a block
/// above the capacity of the schedule. Also returns BOUNDS if the block that this rank sends to itself is longer than
/// the rank's own recv_counts entry.
///
/// Sides do not overlap if no block can be overwritten before it has been sent. If both sides have several blocks, the
/// range around all blocks of one side must be disjoint from the range of the other side. If one side has a single
/// block, this block must be disjoint from the blocks of the other side. Exception: the block that a rank sends to
/// itself may have the same address on both sides.
std::optional<failure> read_lists(const schedule& program, const caller_lists& sent, const caller_lists& received,
                                  const round_memory& next);

}  // namespace lsched
