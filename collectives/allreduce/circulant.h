// Reductions on a circulant graph (Träff, "Optimal, non-pipelined reduce-scatter and allreduce algorithms", 2024).
//
//   skips     P, then each half of the one before, rounded up, down to 1; P = 7: 7 4 2 1
//   combine   a rank holds sums of blocks self, self + 1, … around the ring; with skip s after t it sends those from s
//             on to rank self + s, and combines as many that come from rank self - s with its first
//   spread    allreduce only: the same rounds backwards with finished blocks
//
// ceil(log2 P) rounds a phase, in which each rank sends and receives P-1 blocks in all: as few rounds and as few bytes
// as can be for every P, without a fold. Blocks whose numbers pass P begin again at 0, so that a message comes in two
// parts at t - s - 1 of the ranks. Operands are not in rank order: the kernel must commute. Every block is combined by
// one expression: the same bits on all ranks.
#pragma once

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// Each appends its collective from `input` to `output`.
fragment add_allreduce_circulant(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);
fragment add_reduce_scatter_circulant(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);

extern const algorithm k_allreduce_circulant, k_reduce_scatter_circulant, k_reduce_scatter_block_circulant;

}  // namespace lsched
