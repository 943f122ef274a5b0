// Adasum by recursive doubling of entire vectors, for every P by a fold.
//
//   fold      an extra sends its vector to its proxy, which combines the two
//   step j    core ranks across dimension j exchange what they have and combine it     j = 0 … L-1
//   unfold    a proxy sends the result to its extra
//
// Whoever combines two vectors has all of both, so no sums travel: L + 2 steps at most, and the choice for short
// vectors. Each rank moves L times the vector and takes all its dot products. All ranks combine the same operands in
// the same order, so they hold the same bits; and what they combine is what the halving algorithm does
// (hypercube_expression).
#pragma once

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// Appends an adaptive sum of `data.count` elements from `input` to `output`.
fragment add_adasum_doubling(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);

extern const algorithm k_adasum_doubling;

}  // namespace lsched
