// The sparse allreduces of other papers that Ok-Topk is compared with, by name: topkdsa, gtopk, gtopk_published (in
// which what is dropped on the way may be lost) and gaussiank.
#pragma once

namespace lsched {

/// Adds them to sparse_algorithms(). Once, before anything else of these is called.
void add_sparse_baselines();

}  // namespace lsched
