// The sparse allreduces of other papers, as baselines for Ok-Topk: topkdsa, gtopk, gtopk_published (which may lose
// values that are dropped on the way) and gaussiank.
#pragma once

namespace lsched {

/// Adds the baselines to sparse_algorithms(). Must be called once, before all other functions of sparse_allreduce.h.
void add_sparse_baselines();

}  // namespace lsched
