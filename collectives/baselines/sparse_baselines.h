// Sparse allreduces of other papers, as baselines for Ok-Topk: topkdsa, gtopk and gtopk_published. gtopk_published
// works as in its paper: if a value is dropped on the way up the tree, the value can also be missing from the residual.
#pragma once

namespace lsched {

/// Adds the baselines to sparse_algorithms(). Must be called once, before all other functions of sparse_allreduce.h.
void add_sparse_baselines();

}  // namespace lsched
