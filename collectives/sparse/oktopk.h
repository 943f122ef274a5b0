// Ok-Topk: the sum of the k largest elements of every rank's vector, of which again the k largest are kept, for every P
// (Li and Hoefler, Near-Optimal Sparse Allreduce for Distributed Deep Learning, 2022).
//
//   select      the k largest elements of the rank's residual
//   split       those of region r to rank r, ranks r+1, r+2, … in this order
//   threshold   of the sums of all regions, the k-th largest: an allreduce of counters in each of a few passes
//   balance     what is above it in equal shares, if that moves less: pairs of ranks that have nothing to move are void
//   gather      shares by dissemination, any P, ceil(log2 P) messages
//
// With reused thresholds (selection_rule) there is no allreduce of counters; what is gathered, is the paper's in rounds
// that look for thresholds: all sums. Which rounds do, functions know; the schedule is the same in all of them, since
// rooms are those of the largest.
//
// Where the regions' boundaries are, is looked at every so many rounds, behind a guard. At most 6 k (P-1)/P words come
// and go at any rank, index and value being a word each; counters, lengths and messages of nothing aside
// (docs/sparse.md). What a rank computes between messages are functions (oktopk_steps.h). Synchronising.
#pragma once

#include "collectives/sparse/sparse_allreduce.h"

namespace lsched {

/// Appends the algorithm for a `problem` that validate() accepts.
fragment add_oktopk(builder& to, const sparse_problem& problem, const sparse_ends& ends);

}  // namespace lsched
