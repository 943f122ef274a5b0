// The variants of algorithms that `lsched bench sparse` examines, and the row of results of each, measured or counted.
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

inline constexpr std::uint64_t k_seed = 1;  ///< seed of the gradients

struct sparse_variant {
  std::string policy;        ///< "strict", "defer" or "reused" for oktopk, otherwise "-"
  sparse_problem problem{};  ///< problem of rank 0
};

/// Returns true for the plain allreduces: of the whole vector, and of its buckets.
inline bool is_dense(const std::string& algorithm) { return algorithm == "dense" || algorithm == "denseovlp"; }

/// Returns the buckets of an algorithm. A bucket is empty only if the vector is.
cut buckets_of(const sparse_options& options, const std::string& algorithm);
std::uint64_t bucket_count(const sparse_options& options, const std::string& algorithm);

/// Returns the variants of an algorithm: one for each requested policy of oktopk, and one for any other algorithm.
std::vector<sparse_variant> variants_of(const sparse_options& options, const std::string& algorithm);

/// Returns the requested algorithms. Without a request, returns all algorithms, the plain allreduces last.
std::vector<std::string> algorithms_of(const sparse_options& options);

std::uint64_t rounds_of(const sparse_options& options);

inline constexpr double k_header_words = 4;

/// The numbers of one variant. A word has 4 bytes, the size of an index or an f32. Maxima are over ranks and rounds.
struct sparse_row {
  std::string algorithm;
  std::string policy;  ///< "strict", "defer" or "reused" for oktopk, otherwise "-"
  std::string generator;
  std::uint64_t ranks = 0, n = 0, k = 0;
  std::uint64_t rounds = 0;
  double bound_words = 0;     ///< the published bound
  bool is_counted = false;    ///< counted in one process, without messages
  std::uint64_t buckets = 1;  ///< number of schedules of a round
  double compute_us = 0;      ///< part of us_median: computation

  double words_recv_max = 0, words_sent_max = 0;  ///< payload: items, or elements of the dense allreduce
  double words_mean = 0;                          ///< sent or received by the busiest rank of a round, mean over rounds
  double words_meta_max = 0;                      ///< counters, lengths, bitmaps, and 4 words for each message
  std::uint64_t over_bound = 0;                   ///< number of rounds and ranks that exceeded bound_words
  std::vector<double> phase_words_max{};          ///< received in each phase
  double us_median = 0;  ///< time of a round on the slowest rank; if counted, of all ranks in turn
  std::uint64_t violations = 0;

  /// Adds the words of a rank in a round.
  void add(double sent, double received, double metadata);
  /// Compares the words of a rank in a round with the bound.
  void compare(double sent, double received);
  void add_phase(std::size_t phase, double received);
};

/// Returns a row without words.
sparse_row row_of(const sparse_options& options, const std::string& algorithm, const sparse_variant& how);

/// Counts sparse allreduces in one process, for all ranks in turn. Messages are counted but not sent. The steps are
/// those that schedules call, and tests compare the counts with the traffic of engines.
///
/// The world has options.ranks ranks, with residuals up to k_most_residuals ranks. For larger worlds and for baselines,
/// every rank's list is selected from a newly drawn gradient, and no vector is kept. All algorithms, which find_sparse
/// must know, count the same gradients. `tell` receives the number of finished rounds.
std::vector<sparse_row> count_sparse(const sparse_options& options, std::span<const std::string> algorithms,
                                     const std::function<void(std::uint64_t)>& tell);

inline constexpr rank k_most_residuals = 256;

void report_rows(const sparse_options& options, const std::vector<sparse_row>& rows, reporter& out);

}  // namespace lsched::bench
