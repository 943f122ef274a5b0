// The forms in which `lsched bench sparse` looks at an algorithm.
#pragma once

#include <string>
#include <vector>

#include "microbench/benchmarks.h"
#include "sparse/problem.h"

namespace lsched::bench {

struct sparse_variant {
  std::string policy;        ///< "strict" or "defer" of oktopk, else "-"
  sparse_problem problem{};  ///< of rank 0
};

/// One, or of oktopk one for each policy.
std::vector<sparse_variant> variants_of(const sparse_options& options, const std::string& algorithm);

/// As asked for; or all of them, the plain allreduce last.
std::vector<std::string> algorithms_of(const sparse_options& options);

std::uint64_t rounds_of(const sparse_options& options);

}  // namespace lsched::bench
