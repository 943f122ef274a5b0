#include "microbench/sparse/sparse_variant.h"

#include <algorithm>
#include <cmath>

#include "collectives/sparse/sparse_allreduce.h"
#include "microbench/baselines/gradient_source.h"
#include "microbench/harness.h"

namespace lsched::bench {
namespace {

bool is_asked_for(const sparse_options& options, std::string_view policy) {
  if (options.policy == "both") return policy != "reused";
  return options.policy == "all" || options.policy == policy;
}

/// What the paper's thresholds select has room at its owner.
sparse_problem with_policy(sparse_problem problem, std::string_view policy) {
  if (policy == "defer") problem.capacity = capacity_policy::defer;
  if (policy == "reused") problem.selection = selection_rule::reused;
  return problem;
}

}  // namespace

std::vector<sparse_variant> variants_of(const sparse_options& options, const std::string& algorithm) {
  sparse_problem problem{
      .count = options.n,
      .k = static_cast<std::uint64_t>(std::llround(options.density * static_cast<double>(options.n))),
      .place = {0, options.ranks}};
  if (algorithm != "oktopk") return {{"-", problem}};
  problem.period = options.period;
  problem.reuse = options.reuse;
  problem.bucket = options.bucket;
  std::vector<sparse_variant> all;
  for (const char* policy : {"strict", "defer", "reused"})
    if (is_asked_for(options, policy)) all.push_back({policy, with_policy(problem, policy)});
  return all;
}

std::uint64_t bucket_count(const sparse_options& options, const std::string& algorithm) {
  return algorithm == "denseovlp" ? std::clamp<std::uint64_t>(options.n, 1, options.buckets) : 1;
}

cut buckets_of(const sparse_options& options, const std::string& algorithm) {
  return {options.n, bucket_count(options, algorithm)};
}

std::vector<std::string> algorithms_of(const sparse_options& options) {
  if (!options.algorithms.empty()) return options.algorithms;
  std::vector<std::string> all;
  for (const sparse_algorithm& it : sparse_algorithms())
    if (it.name != "gtopk_published") all.emplace_back(it.name);
  all.emplace_back("dense");
  all.emplace_back("denseovlp");
  return all;
}

std::vector<std::string> sparse_generators() {
  std::vector<std::string> all;
  for (const gradient_kind kind : k_all_gradient_kinds) all.emplace_back(name_of(kind));
  return all;
}

std::vector<std::string> sparse_algorithm_names() {
  std::vector<std::string> all = algorithms_of({});
  all.emplace_back("gtopk_published");
  return all;
}

std::uint64_t rounds_of(const sparse_options& options) {
  return options.rounds != 0 ? options.rounds : std::uint64_t{2} * options.period;
}

}  // namespace lsched::bench
