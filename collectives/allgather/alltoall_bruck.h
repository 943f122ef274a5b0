// Alltoall by Bruck's algorithm (Bruck and others, 1997), radix 2: ceil(log2 P) messages from each rank instead of P-1.
//
// What a rank has for the rank i places after it is block i. In the step of bit k, the blocks i with that bit travel
// 2^k places in one message; after all steps, each has travelled i places. The highest bit goes first: its blocks lie
// side by side. Blocks are gathered from where they have arrived, and put where they belong at the end.
//
// P ceil(log2 P) messages with about half of all blocks each: the choice for short blocks. Synchronising.
#pragma once

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// Appends an alltoall of P blocks of `data.count` elements from `input` to `output`.
fragment add_alltoall_bruck(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);

extern const algorithm k_alltoall_bruck;

}  // namespace lsched
