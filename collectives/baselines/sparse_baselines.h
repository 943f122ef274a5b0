// Sparse allreduces of other papers, as baselines for Ok-Topk: topkdsa, gtopk and gtopk_published. In gtopk_published,
// as in its paper, a value that is dropped on the way up the tree can be missing from the residual, too.
#pragma once

namespace lsched {

/// Adds the baselines to sparse_algorithms(). Must be called once, before all other functions of sparse_allreduce.h.
void add_sparse_baselines();

}  // namespace lsched
