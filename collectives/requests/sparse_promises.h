// The postconditions of sparse allreduces. A proof checks schedules against their postconditions.
#pragma once

#include "collectives/sparse/coo_allreduce.h"
#include "collectives/sparse/sparse_allreduce.h"
#include "libsched/postcondition/postcondition.h"

namespace lsched {

/// Returns the postcondition of a sparse allreduce: every output contains every rank's contribution once, in rank
/// order. The outputs are the same on all ranks.
postcondition promise_of_sparse(const sparse_problem& problem);

/// Returns the postcondition of a sparse allreduce with an activation.
postcondition promise_of_partial_sparse(const sparse_problem& problem, const activation& starts);

/// Returns the postcondition of a sum of users' sparse vectors: every output contains every rank's contribution once,
/// in rank order. The outputs are the same on all ranks. In the postcondition, the input with the number of items
/// represents a rank's contribution. Either all ranks must have the dense output, or no rank.
postcondition promise_of_coo(const coo_problem& problem);

}  // namespace lsched
