// Adasum by recursive vector halving and distance doubling, for every P by a fold: as adasum_exchange.h
// says, of nodes of one rank each. Tensors are combined as hypercube_expression says: proxies with their extras, then
// neighbours.
#pragma once

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// Appends an adaptive sum of `data.count` elements from `input` to `output`.
fragment add_adasum_halving(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);

extern const algorithm k_adasum_halving;

}  // namespace lsched
