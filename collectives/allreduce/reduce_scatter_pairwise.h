// Reduce_scatter by pairwise exchange (Thakur, Rabenseifner and Gropp, 2005).
//
//   step t    a rank sends rank self + t its block and combines what rank self - t sends of its own     t = 1 … P-1
//
// P-1 messages of a block per rank, one at a time: a rank sends its next when its last has come in, so no more than one
// message waits at anybody. For long blocks where many messages at once hurt; `direct` sends them all at once.
// What comes from lower ranks arrives highest first, then what comes from higher ones, highest first too; each is put
// in front of what it precedes, in two sums that are joined at the end. So operands are in rank order, and the kernel
// need not commute.
#pragma once

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// Appends a reduce_scatter, of blocks equal or not, from `input` to `output`.
fragment add_reduce_scatter_pairwise(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);

/// Any P, any count; no activation.
extern const algorithm k_reduce_scatter_pairwise, k_reduce_scatter_block_pairwise;

}  // namespace lsched
