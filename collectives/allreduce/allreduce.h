// Allreduce and reduce_scatter. The comment at the top of each source file describes its algorithm.
#pragma once

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// Appends an allreduce by recursive doubling of `data.count` elements from `input` to `output`. If `data.in_place` is
/// set, the two buffers may share memory. In this case, no op writes the output before all ops that read this rank's
/// input have completed.
fragment add_allreduce(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);

extern const algorithm k_allreduce_circulant, k_allreduce_direct, k_allreduce_flat, k_allreduce_multiplying,
    k_allreduce_rabenseifner, k_allreduce_recursive_doubling, k_allreduce_ring, k_allreduce_tree, k_allreduce_two_level;
extern const algorithm k_reduce_scatter_circulant, k_reduce_scatter_direct, k_reduce_scatter_halving,
    k_reduce_scatter_ring;
extern const algorithm k_reduce_scatter_block_circulant, k_reduce_scatter_block_direct, k_reduce_scatter_block_halving,
    k_reduce_scatter_block_ring;

}  // namespace lsched
