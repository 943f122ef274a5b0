// Allgather(v) by dissemination (Bruck and others, 1997): ceil(log2 P) steps for every P.
//
//   step k    rank r sends all it has, the blocks r, r+1, …, r+2^k-1, to r-2^k, and gets the next as many from r+2^k
//
// The last step carries only what is missing. Blocks stand in scratch memory in the order in which they come; two
// copies put them where they belong. P ceil(log2 P) messages, each block once to each rank: the choice for short
// blocks. Synchronising.
#pragma once

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// Appends an allgather of the ranks' blocks from `input` to `output`.
fragment add_allgather_dissemination(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);

extern const algorithm k_allgather_dissemination, k_allgatherv_dissemination;

}  // namespace lsched
