// Allgather(v) in one hop: every rank sends its block to all others, which receive it where it belongs.
//
// P (P-1) messages, or more where blocks come in segments; each block moves once to each rank. The same region goes to
// all peers before the next one, in the order r+1, r+2, …, so that no rank is everybody's first. Synchronising.
#pragma once

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// Appends an allgather of the ranks' blocks from `input` to `output`.
fragment add_allgather_direct(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);

extern const algorithm k_allgather_direct, k_allgatherv_direct;

}  // namespace lsched
