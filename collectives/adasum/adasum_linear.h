// Adasum along the line of ranks: rank 0's vector with rank 1's, that with rank 2's, and so on (Maleki and others,
// "Scaling distributed training with adaptive summation", MLSys 2021, the ring of section 4.2.3).
//
// Each tensor goes up the line and comes back down by itself, so that ranks work on different tensors at a time. A
// tensor has to be complete before its dot product is known, so that one tensor alone takes 2 (P-1) hops with all of
// it. Other algorithms are faster; this one is for who wants its semantics: the last rank weighs 1/2 where vectors are
// parallel, the one before 1/4, and so on. Never chosen by "auto", since its results are other results.
#pragma once

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// Appends an adaptive sum of `data.count` elements from `input` to `output`.
fragment add_adasum_linear(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);

extern const algorithm k_adasum_linear;

}  // namespace lsched
