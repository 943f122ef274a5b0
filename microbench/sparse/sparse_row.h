// The forms in which `lsched bench sparse` looks at algorithms, and what it says of one, whether it was run or counted.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "collectives/sparse/steps/problem.h"
#include "libsched/schedule/geometry.h"
#include "microbench/report.h"

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

/// One; of oktopk one for each policy that options name.
std::vector<sparse_variant> variants_of(const sparse_options& options, const std::string& algorithm);

/// Those that options name; or all of them, the plain allreduces last.
std::vector<std::string> algorithms_of(const sparse_options& options);

std::uint64_t rounds_of(const sparse_options& options);

inline constexpr double k_header_words = 4;

/// Words are of 4 bytes, as an index or a value of f32 is. Of each number the most that any rank had in any round.
struct sparse_row {
  std::string algorithm;
  std::string policy;  ///< "strict", "defer" or "reused" of oktopk, else "-"
  std::string generator;
  std::uint64_t ranks = 0, n = 0, k = 0;
  std::uint64_t rounds = 0;
  double bound_words = 0;     ///< of the published table
  bool is_counted = false;    ///< in one process, without messages
  std::uint64_t buckets = 1;  ///< schedules that a round has
  double compute_us = 0;      ///< of us_median, arithmetic

  double words_recv_max = 0, words_sent_max = 0;  ///< payload: items, or elements of the dense allreduce
  double words_mean = 0;                          ///< sent or received, of a round's busiest rank, over all rounds
  double words_meta_max = 0;                      ///< counters, lengths, bitmaps, and 4 words for each message
  std::uint64_t over_bound = 0;                   ///< how often a rank sent or received more in a round
  std::vector<double> phase_words_max{};          ///< received, phase by phase
  double us_median = 0;  ///< of a round: of the slowest rank; where counted, of all ranks one after the other
  std::uint64_t violations = 0;

  /// What a rank has moved in a round.
  void add(double sent, double received, double metadata);
  /// With the bound.
  void compare(double sent, double received);
  void add_phase(std::size_t phase, double received);
};

/// With nothing moved yet.
sparse_row row_of(const sparse_options& options, const std::string& algorithm, const sparse_variant& how);

/// Sparse allreduces in one process, all ranks one after the other: what messages would carry is counted, and nothing
/// is sent. The steps are those that schedules call; tests hold the counts against what engines have moved.
///
/// Of options.ranks ranks; with residuals up to k_most_residuals. Beyond, and of baselines, every rank's list is
/// that of a gradient drawn anew, and no vector is kept. All algorithms, of those that find_sparse knows, count the
/// same draws. `tell`: rounds done.
std::vector<sparse_row> count_sparse(const sparse_options& options, std::span<const std::string> algorithms,
                                     const std::function<void(std::uint64_t)>& tell);

inline constexpr rank k_most_residuals = 256;

/// Prints and writes all rows.
void report_rows(const sparse_options& options, const std::vector<sparse_row>& rows, reporter& out);

}  // namespace lsched::bench
