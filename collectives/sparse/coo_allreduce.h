// The allreduce of sparse vectors that users provide (coo_problem.h). The vector is divided into regions. The owner of
// each region adds up the items of all ranks in the region, and all ranks then gather the sums.
//
//   sample    if regions are balanced: an allgather of up to 2 P indices from each rank
//   take      the user's items, one for each index, as a list for each of P regions
//   lengths   if regions are balanced: the length of list r to rank r
//   split     list r to rank r, ranks r+1, r+2, … in this order
//   sum       by the owner, in rank order
//   tally     the lengths of all sums, and whether the items of all ranks are valid: an allgather of 2 P numbers
//   gather    the sums of all regions: by dissemination, any P; the sums are empty if the round is not good
//   give      the result to the user
//
// The computations of a rank between messages are functions (coo.h). Synchronising. The owner of a region allocates
// memory for all items that ranks may contribute to the region (received_room), in addition to the user's memory. With
// balanced regions, this is less than P times the items of a rank. Therefore lists are packed, their lengths are
// exchanged first, and empty lists are skipped.
#pragma once

#include "collectives/sparse/steps/coo_problem.h"
#include "libsched/schedule/builder.h"

namespace lsched {

/// Returns the schedule of rank problem.place. Inputs: indices (u64) and values, `room` of each, and the number of
/// items (one u64). Outputs: indices and values of the result, `result_room` of each, the number of items (one u64),
/// and with `has_dense` a vector of `count` values. Fails if validate(problem) or builder::compile fails.
result<schedule_ptr> coo_schedule(const coo_problem& problem);

}  // namespace lsched
