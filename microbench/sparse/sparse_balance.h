// Computes Fig. 7 of Li and Hoefler, Near-Optimal Sparse Allreduce for Distributed Deep Learning, PPoPP 2022, in words
// instead of seconds. The figure shows the words that balanced regions and balanced shares save for the busiest rank.
#pragma once

#include <functional>

#include "microbench/report.h"

namespace lsched::bench {

/// Each world runs Ok-Topk in lockstep (lockstep.h). Lists and results do not depend on regions, so one run is enough
/// to compute the words of all rules for regions and shares. `violations` counts rounds in which the computed words
/// differ from the words that lockstep.h counts. The results are JSON lines (docs/reference/benchmarks.md). `tell`
/// receives texts about the progress of the work.
std::vector<result> count_balance(const balance_options& options, const std::function<void(const std::string&)>& tell);

}  // namespace lsched::bench
