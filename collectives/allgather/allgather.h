// Allgather, alltoall and exchanges among neighbors. The comment at the top of each source file describes its
// algorithm.
#pragma once

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// Appends an allgather by dissemination (dissemination.cc).
fragment add_allgather_dissemination(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);

extern const algorithm k_allgather_direct, k_allgather_dissemination, k_allgather_recursive_doubling;
extern const algorithm k_allgatherv_direct, k_allgatherv_dissemination, k_allgatherv_recursive_doubling;
extern const algorithm k_alltoall_bruck, k_alltoall_direct, k_alltoallv_direct, k_alltoallv_pairwise,
    k_neighbor_exchange_direct;

}  // namespace lsched
