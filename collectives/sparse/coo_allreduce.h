// The allreduce of sparse vectors in coordinate format that users provide (coo_problem.h). The vector is divided into P
// regions, each owned by a rank. The owner of a region sums the items of all ranks in this region. Then all ranks
// gather the sums.
//
//   sample    if regions are balanced: an allgather of up to 2 P indices of each rank
//   take      converts the user's items to a list for each region, with one item for each index
//   lengths   if regions are balanced: sends the length of list r to rank r
//   split     sends list r to rank r, beginning with the next rank
//   sum       the owner sums the lists of its region in rank order
//   tally     an allgather of 2 P numbers: the lengths of all sums, and whether each rank's items are valid
//   gather    an allgather of all sums, by dissemination; sums are empty if the round has no result (coo_flaw)
//   give      copies the result to the user's memory
//
// The computations of a rank between messages are functions (coo.h). In addition to the user's memory, an owner
// allocates memory for all items that ranks can contribute to its region (received_room). With balanced regions,
// received_room is less than P * room, so lists are packed. The ranks exchange the lengths of packed lists first, and
// skip empty lists.
#pragma once

#include "collectives/sparse/steps/coo_problem.h"
#include "libsched/schedule/builder.h"

namespace lsched {

/// Returns the schedule of rank problem.place. Its inputs are `room` indices (u64), `room` values, and the number of
/// items (one u64). Its outputs are `result_room` indices, `result_room` values, the number of items (one u64), and, if
/// `has_dense` is true, a vector of `count` values. Returns the errors of validate(problem) and builder::compile().
result<schedule_ptr> coo_schedule(const coo_problem& problem);

}  // namespace lsched
