// Collectives with a root, prefix reductions and barriers. The comment at the top of each source file describes its
// algorithm.
#pragma once

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// Appends a barrier by dissemination. The exit completes on a rank only after `entry` has completed on every rank.
fragment add_barrier(builder& to, op_id entry, rank radix = 2);

extern const algorithm k_barrier_dissemination, k_barrier_k_dissemination, k_barrier_tree;
extern const algorithm k_bcast_binomial, k_bcast_flat, k_bcast_scatter_allgather;
extern const algorithm k_gather_binomial, k_gather_flat, k_gatherv_binomial, k_gatherv_flat;
extern const algorithm k_reduce_binomial, k_reduce_direct, k_reduce_flat;
extern const algorithm k_scan_chain, k_scan_recursive_doubling, k_exscan_chain, k_exscan_recursive_doubling;
extern const algorithm k_scatter_binomial, k_scatter_flat, k_scatterv_binomial, k_scatterv_flat;

}  // namespace lsched
