// Allreduce by recursive halving and doubling, for every P by a fold (Rabenseifner, 2004; Thakur, Rabenseifner and
// Gropp, 2005).
//
//   fold       a proxy and its extra exchange halves of the vector, each combines one, the extra hands its half over
//   halve      step j: core ranks across dimension j exchange halves of what they hold and combine the half they keep
//   double     the same steps backwards: partners exchange the finished parts
//   unfold     a proxy sends the result to its extra
//
// 2 log2 P steps that move twice (P-1)/P of the vector in and out of each core rank: bandwidth-optimal where P is a
// power of two. An extra's half of the fold and the unfold add 3/2 vectors in and 1 out at proxies.
// Partners are near while messages are long, and what two partners hold comes from neighbouring ranks; so operands are
// in rank order, and the kernel need not commute. Every block is combined once: the same bits on all ranks.
#pragma once

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// Appends an allreduce of `data.count` elements from `input` to `output`.
fragment add_allreduce_rabenseifner(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);

extern const algorithm k_allreduce_rabenseifner;

}  // namespace lsched
