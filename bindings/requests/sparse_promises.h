// What schedules of sparse allreduces are held against.
#pragma once

#include "collectives/sparse/coo_allreduce.h"
#include "collectives/sparse/sparse_allreduce.h"
#include "libsched/postcondition/postcondition.h"

namespace lsched {

/// Every rank's output is made of every rank's contribution, once, in rank order, and the same everywhere.
postcondition promise_of_sparse(const sparse_problem& problem);

/// The same behind an activation.
postcondition promise_of_partial_sparse(const sparse_problem& problem, const activation& starts);

/// Every output of every rank is made of every rank's contribution, for which the number of its items stands, once, in
/// rank order, and the same everywhere. All ranks have a vector, or none.
postcondition promise_of_coo(const coo_problem& problem);

}  // namespace lsched
