#include "microbench/sparse/sparse_row.h"

#include <algorithm>
#include <cmath>

#include "collectives/sparse/sparse_allreduce.h"
#include "microbench/lockstep/gradient_source.h"

namespace lsched::bench {
namespace {

bool is_asked_for(const sparse_options& options, std::string_view policy) {
  if (options.policy == "both") return policy != "reused";
  return options.policy == "all" || options.policy == policy;
}

/// Returns `problem` changed by option `--policy`. Value "reused" leaves the capacity strict, so owners have the
/// capacity for all items.
sparse_problem with_policy(sparse_problem problem, std::string_view policy) {
  if (policy == "defer") problem.capacity = capacity_policy::defer;
  if (policy == "reused") problem.selection = selection_rule::reused;
  return problem;
}

/// Returns the published bound on the words that a rank sends, and on the words that a rank receives. The bound is 6 k
/// (P-1)/P for oktopk, and 2 k (P-1) for topka. For sparseloco the bound is the exact number of words. For gtopk it is
/// 4 k ceil(log2 P), which bounds the sum of sent and received words. For dense allreduces it is 2 n (P-1)/P. For
/// topkdsa it is (2 k + n)(P-1)/P, the maximum for balanced regions.
double published_words(const std::string& algorithm, const sparse_problem& problem) {
  const double ranks = problem.place.size, share = (ranks - 1) / ranks;
  const double k = static_cast<double>(most_items(problem)) * static_cast<double>(item_size(problem.type)) / 8;
  const double dense = static_cast<double>(problem.count * size_of(problem.type)) / 4;
  if (algorithm == "oktopk") return 6 * k * share;
  if (algorithm == "topkdsa") return (2 * k + dense) * share;
  if (algorithm.starts_with("gtopk")) return 4 * k * ceil_log2(problem.place.size);
  if (algorithm == "topka") return 2 * k * (ranks - 1);
  if (algorithm == "sparseloco") return find_sparse(algorithm)->cost_of(problem).words;
  return 2 * (ranks - 1) * std::ceil(dense / ranks);  // rounded up to whole blocks
}

/// Returns the bound of an algorithm. For denseovlp it is the sum of the bounds of all buckets, each rounded up to
/// whole blocks.
double bound_of(const std::string& algorithm, sparse_problem problem, const sparse_options& options) {
  const cut buckets = buckets_of(options, algorithm);
  double words = 0;
  for (std::uint64_t i = 0; i < bucket_count(options, algorithm); ++i) {
    problem.count = buckets.size(i);
    words += published_words(algorithm, problem);
  }
  return words;
}

double bits_of(const std::string& algorithm, const sparse_problem& problem) {
  const sparse_algorithm* const how = find_sparse(algorithm);
  return how == nullptr ? 8.0 * static_cast<double>(size_of(problem.type)) : how->bits_per_element(problem);
}

result result_of(const sparse_row& row) {
  return {{"algorithm", row.algorithm},
          {"ranks", row.ranks},
          {"n", row.n},
          {"k", row.k},
          {"policy", row.policy},
          {"words_recv_max", row.words_recv_max},
          {"words_sent_max", row.words_sent_max},
          {"words_meta_max", row.words_meta_max},
          {"words_mean", row.words_mean},
          {"bound_words", row.bound_words},
          {"bits_per_element", row.bits},
          {"over_bound", row.over_bound},
          {"us_median", row.us_median},
          {"violations", row.violations},
          {"generator", row.generator},
          {"iterations", row.rounds},
          {"words_recv_phases", row.phase_words_max},
          {"counted", row.is_counted},
          {"buckets", row.buckets},
          {"compute_us", row.compute_us}};
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
  for (const sparse_algorithm& each : sparse_algorithms())
    if (each.name != "gtopk_published") all.emplace_back(each.name);
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

void sparse_row::add(double sent, double received, double metadata) {
  words_sent_max = std::max(words_sent_max, sent);
  words_recv_max = std::max(words_recv_max, received);
  words_meta_max = std::max(words_meta_max, metadata);
}

void sparse_row::compare(double sent, double received) {
  over_bound += std::max(sent, received) > bound_words ? 1u : 0u;
}

void sparse_row::add_phase(std::size_t phase, double received) {
  if (phase_words_max.size() <= phase) phase_words_max.resize(phase + 1);
  phase_words_max[phase] = std::max(phase_words_max[phase], received);
}

sparse_row row_of(const sparse_options& options, const std::string& algorithm, const sparse_variant& how) {
  return {.algorithm = algorithm,
          .policy = how.policy,
          .generator = options.generator,
          .ranks = static_cast<std::uint64_t>(options.ranks),
          .n = options.n,
          .k = most_items(how.problem),
          .rounds = rounds_of(options),
          .bound_words = bound_of(algorithm, how.problem, options),
          .bits = bits_of(algorithm, how.problem),
          .buckets = bucket_count(options, algorithm),
          .compute_us = options.compute_us};
}

void report_rows(const sparse_options& options, const std::vector<sparse_row>& rows, reporter& out) {
  result no_words;  // the row of MPI has no words
  for (const char* key : {"words_recv_max", "words_sent_max", "words_mean", "words_meta_max", "bound_words"})
    no_words[key] = nullptr;
  for (const sparse_row& row : rows) out.add(result_of(row), row.algorithm == "mpi_allreduce" ? no_words : result());
  out.say(
      "n = %zu, k = %zu, generator %s, %zu rounds; words of 4 bytes, the maximum over ranks and rounds; mean: of the "
      "busiest rank, over all rounds",
      std::size_t{options.n}, rows.empty() ? 0 : std::size_t{rows.front().k}, options.generator.c_str(),
      std::size_t{rounds_of(options)});
  out.print({column("algorithm", "algorithm"), column("policy", "policy"), per_k("recv/k", "words_recv_max"),
             per_k("sent/k", "words_sent_max"), per_k("mean/k", "words_mean"), per_k("bound/k", "bound_words"),
             column("bits/n", "bits_per_element", 4), column("over", "over_bound"), column("meta", "words_meta_max", 0),
             column("median us", "us_median", 1), column("violations", "violations")});
}

}  // namespace lsched::bench
