// TopkA: an allgather of all lists, which every rank then adds up by itself (Renggli and others, SparCML, 2019).
//
// Lengths are gathered first, P words, and then lists, both by dissemination. Any P; a rank receives the items of all
// others. What it computes between messages are functions (topka_steps.h). Synchronising.
#pragma once

#include "collectives/sparse/sparse_allreduce.h"

namespace lsched {

/// Appends the algorithm for a `problem` that validate() accepts.
fragment add_topka(builder& to, const sparse_problem& problem, const sparse_ends& ends);

/// The same of lists of up to `most` items.
fragment add_lists_to_all(builder& to, const sparse_problem& problem, const sparse_ends& ends, std::uint64_t most);

}  // namespace lsched
