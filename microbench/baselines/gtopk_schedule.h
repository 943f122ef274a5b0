// gTopk: lists are added pairwise up a tree, only the k largest of each sum go on, and the root's come back (Shi and
// others, A Distributed Synchronous SGD Algorithm with Global Top-k Sparsification for Low Bandwidth Networks, 2019).
//
// The binomial tree with root 0, any P. With `exact`, every list that has gone up is answered by a bitmap that says
// which of its items are part of the result, so that what was dropped on the way is not taken for sent. What a rank
// computes between messages are functions (rival_steps.h). Synchronising.
#pragma once

#include "collectives/sparse/sparse_allreduce.h"

namespace lsched {

/// Appends the algorithm for a `problem` that validate() accepts.
fragment add_gtopk(builder& to, const sparse_problem& problem, const sparse_ends& ends, bool is_exact);

/// Children of a rank in the tree.
std::uint32_t gtopk_children(world place);

}  // namespace lsched
