// Reductions in which every block has one rank that does all its arithmetic: for the ranks of one node.
//
//   scatter   every rank sends block q of its input straight to rank q, which combines all of them in rank order
//   spread    allreduce only: rank q sends what came out to all others
//
// P-1 messages of a block per rank and phase, one hop each. On the wire that is what any bandwidth-optimal algorithm
// moves: (P-1)/P of the vector in and out of each rank per phase. In shared memory every contribution is read once,
// where it lies, and every block is combined by one rank, so arithmetic is shared evenly; and since there are no rounds
// that build on each other, nobody waits for a chain of ranks. Direct reduce-scatter and all-to-all broadcast are old;
// compare Thakur, Rabenseifner and Gropp, 2005, section 4 ("pairwise" and "linear"), and the single-copy reductions of
// Jain, Kaleem, Balmana et al., "Framework for scalable intra-node collective operations using shared memory", SC'18.
//
// The vector goes in segments that fit into caches, one after the other. Where peers cannot read input and output
// (shape::is_visible), a rank copies what it sends through a ring of a few segments of scratch memory: a byte is copied
// once, just before peers read it. Ranks may differ in this; the messages are the same.
//
// One expression in rank order, evaluated once for every element: the same bits on all ranks, and the kernel need not
// commute.
#pragma once

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// Each appends its collective from `input` to `output`.
fragment add_allreduce_direct(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);
fragment add_reduce_scatter_direct(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);

extern const algorithm k_allreduce_direct, k_reduce_scatter_direct, k_reduce_scatter_block_direct;

}  // namespace lsched
