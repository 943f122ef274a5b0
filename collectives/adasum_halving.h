// Adasum by recursive vector halving and distance doubling, for every P by a fold (Maleki and others, "Scaling
// distributed training with adaptive summation", MLSys 2021, Algorithm 1).
//
//   fold       a proxy and its extra exchange halves of the vector, each combines one, the extra hands its half over
//   halve      step j: core ranks across dimension j exchange halves of what they hold and combine the half they keep
//   double     the same steps backwards: partners exchange the finished parts
//   unfold     a proxy sends the result to its extra
//
// What moves is what an allreduce moves (collectives/allreduce_rabenseifner.h). But a tensor is combined by the dot
// product and the norms of all of it, and after step j the two vectors that a rank combines are scattered over the
// 2^(j+1) ranks of its subcube. Each takes the sums of its own part, and they add them up by exchanges across dimension
// j, j-1, …, 0 (add_sums). Across dimension i go only the tensors that neither of the two halves holds all of: three at
// most, 24 bytes each. A fused vector of many small tensors thus costs hardly more than one of one.
//
// All ranks of a subcube add in the same order up to exchanged operands, so they have the same bits and the same
// coefficients; every element of the result is computed once. Tensors are combined as hypercube_expression says: proxies
// with their extras, then neighbours.
#pragma once

#include "collectives/algorithm.h"

namespace lsched {

/// Appends an adaptive sum of `data.count` elements from `input` to `output`.
fragment add_adasum_halving(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);

extern const algorithm k_adasum_halving;

}  // namespace lsched
