// Reduce_scatter by recursive halving, for every P by a fold (Thakur, Rabenseifner and Gropp, 2005).
//
//   fold      a proxy and its extra exchange halves of all blocks, each combines one, the extra hands its half over
//   step j    core ranks half the remaining distance apart exchange the halves of their blocks that the other keeps
//   unfold    a proxy sends its extra the extra's block
//
// log2 P steps in which a core rank sends and receives (P-1)/P of all blocks: fewest bytes and fewest hops where P is a
// power of two. Distant ranks are combined first, not in rank order: the kernel must commute.
#pragma once

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// Appends a reduce_scatter, of blocks equal or not, from `input` to `output`.
fragment add_reduce_scatter_halving(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);

/// Any P, any count; no activation.
extern const algorithm k_reduce_scatter_halving, k_reduce_scatter_block_halving;

}  // namespace lsched
