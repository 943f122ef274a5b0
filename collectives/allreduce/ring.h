// Reductions around a ring: neighbours alone talk to each other, and every message is one block (Patarasu and Yuan,
// 2009).
//
//   reduce   P-1 steps: a rank sends what it has combined of a block to the next rank and combines what the one before
//            sends of another; then every rank has one block of the result
//   spread   allreduce only: P-1 steps in which the blocks go around
//
// P-1 messages of a block per rank and phase: bandwidth-optimal for any P, at P-1 hops a phase. Blocks travel in
// segments, so that a rank combines one while the next is on its way. The ring begins at another rank for each block,
// so operands are not in rank order: the kernel must commute. Every block is combined along one chain: the same bits on
// all ranks.
#pragma once

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// Each appends its collective from `input` to `output`.
fragment add_allreduce_ring(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);
fragment add_reduce_scatter_ring(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);

extern const algorithm k_allreduce_ring, k_reduce_scatter_ring, k_reduce_scatter_block_ring;

}  // namespace lsched
