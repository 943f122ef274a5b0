// Allgather(v) by recursive doubling, for every P by a fold (Thakur, Rabenseifner and Gropp, 2005).
//
//   fold      an extra sends its block to its proxy, whose block is the one before
//   step j    core ranks across dimension j exchange all they have: neighbouring intervals of blocks     j = 0 … L-1
//   unfold    a proxy sends everything to its extra
//
// All receives go where the blocks belong, all sends but the first come from there, nothing is copied but a rank's own
// block. core * L + 2 * rem messages, L + 2 steps at most. Synchronising.
#pragma once

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// Appends an allgather of the ranks' blocks from `input` to `output`.
fragment add_allgather_recursive_doubling(builder& to, const shape& data, buffer_id input, buffer_id output,
                                          op_id entry);

extern const algorithm k_allgather_recursive_doubling, k_allgatherv_recursive_doubling;

}  // namespace lsched
