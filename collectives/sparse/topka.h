// TopkA: an allgather of all lists, which every rank then adds up by itself (Renggli and others, SparCML, 2019).
//
// Lengths are gathered first, P words, and then lists, both by dissemination. Any P; a rank receives the items of all
// others. What it computes between messages are functions (topka_steps.h). Synchronising.
#pragma once

#include <string>

#include "collectives/sparse/protocol/problem.h"
#include "libsched/schedule/builder.h"

namespace lsched {

/// Input 0 is the gradient, output 0 the update, of `problem.count` elements each. Its place is the schedule's.
/// Failures: as objection(problem).
result<schedule_ptr> topka_schedule(const sparse_problem& problem);

/// The same, named so, of lists of up to `room` items.
result<schedule_ptr> lists_to_all_schedule(const sparse_problem& problem, std::uint64_t room, std::string name);

}  // namespace lsched
