// The sparse allreduces of other papers, as baselines for Ok-Topk: topkdsa, gtopk, and gtopk_published, which may lose
// values that are dropped on the way.
#pragma once

namespace lsched {

/// Adds the baselines to sparse_algorithms(). Must be called once, before all other functions of sparse_allreduce.h.
void add_sparse_baselines();

}  // namespace lsched
