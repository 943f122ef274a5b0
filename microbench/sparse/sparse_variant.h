// The forms in which `lsched bench sparse` looks at an algorithm.
#pragma once

#include <string>
#include <vector>

#include "collectives/sparse/steps/problem.h"
#include "libsched/schedule/geometry.h"
#include "microbench/benchmarks.h"

namespace lsched::bench {

inline constexpr std::uint64_t k_seed = 1;  ///< of gradients

struct sparse_variant {
  std::string policy;        ///< "strict", "defer" or "reused" of oktopk, else "-"
  sparse_problem problem{};  ///< of rank 0
};

/// The plain allreduces: of the vector, and of its buckets.
inline bool is_dense(const std::string& algorithm) { return algorithm == "dense" || algorithm == "denseovlp"; }

/// In how many buckets, none of them empty but of an empty vector, and where these are.
cut buckets_of(const sparse_options& options, const std::string& algorithm);
std::uint64_t bucket_count(const sparse_options& options, const std::string& algorithm);

/// One, or of oktopk one for each policy that is asked for.
std::vector<sparse_variant> variants_of(const sparse_options& options, const std::string& algorithm);

/// As asked for; or all of them, the plain allreduces last.
std::vector<std::string> algorithms_of(const sparse_options& options);

std::uint64_t rounds_of(const sparse_options& options);

}  // namespace lsched::bench
