// A sum of sparse vectors that users bring (coo_problem.h): split, and allgather of sums.
//
//   sample    where regions are balanced: 2 P of each rank's indices, an allgather
//   take      what the user has brought, an index once, as a list for each of P regions
//   lengths   of these, where regions are balanced: list r's to rank r
//   split     list r to rank r, ranks r+1, r+2, … in this order
//   sum       by the owner, in rank order
//   tally     how long all sums are, and whether all ranks have brought what they may: an allgather of 2 P numbers
//   gather    the sums of all regions: by dissemination, any P. If the round is not good they are empty
//   give      to the user
//
// What a rank computes between messages are functions (coo.h). Synchronising. Memory, beside the user's:
// the owner of a region has room for all that may be brought of it (received_room). Where regions are balanced that is
// not P times what each rank may bring, so lists are packed, and their lengths have to be known before; empty ones are
// skipped then.
#pragma once

#include "collectives/sparse/steps/coo_problem.h"
#include "libsched/schedule/builder.h"

namespace lsched {

/// Inputs: indices (u64) and values, `room` of each, and how many of these there are (one u64). Outputs: indices and
/// values of the result, `result_room` of each, how many (one u64), and with `has_dense` a vector of `count` values.
/// Its place is the schedule's. Failures: as validate(problem), and those of builder::compile.
result<schedule_ptr> coo_schedule(const coo_problem& problem);

}  // namespace lsched
