// TopkDSA: split and allgather, as items or, where these would take more room, as vectors (Renggli and others, SparCML,
// 2019, dynamic sparse allreduce).
//
//   select    the k largest elements of the rank's residual, a list for each of P equal regions
//   split     list r to rank r, ranks r+1, r+2, … in this order
//   gather    what has become of all regions, after the lengths of these: by dissemination, any P
//
// What a rank computes between messages are functions (rival_steps.h). Synchronising.
#pragma once

#include "collectives/sparse/sparse_allreduce.h"

namespace lsched {

/// Appends the algorithm for a `problem` that validate() accepts.
fragment add_topk_dsa(builder& to, const sparse_problem& problem, const sparse_ends& ends);

}  // namespace lsched
