// The variants of algorithms that `lsched bench sparse` examines, and a row of results for each variant. The results
// are measured in a world of processes, or counted in one process.
#pragma once

#include <cstdint>
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

/// Returns true for the plain allreduces: "dense" reduces the whole vector at once, and "denseovlp" reduces each
/// bucket.
inline bool is_dense(const std::string& algorithm) { return algorithm == "dense" || algorithm == "denseovlp"; }

/// Returns the buckets of an algorithm. A bucket is empty only if the vector is empty.
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
  double bound_words = 0;     ///< published bound on the words of a rank in a round
  double bits = 0;            ///< bits of a rank's encoded contribution, for each element of the vector
  bool is_counted = false;    ///< counted in one process, without messages
  std::uint64_t buckets = 1;  ///< number of schedules of a round
  double compute_us = 0;      ///< duration of the computation, included in us_median

  double words_recv_max = 0, words_sent_max = 0;  ///< payload: items, or elements if dense
  double words_mean = 0;                          ///< payload of the busiest rank of a round, mean over rounds
  double words_meta_max = 0;                      ///< counters, lengths, bitmaps, and 4 words for each message
  std::uint64_t over_bound = 0;                   ///< number of pairs (round, rank) that exceeded bound_words
  std::vector<double> phase_words_max{};          ///< words received in each phase
  double us_median = 0;                           ///< time of the slowest rank; if counted, total time of all ranks
  std::uint64_t violations = 0;

  /// Updates the maxima with the words of a rank in a round.
  void add(double sent, double received, double metadata);
  /// Increments over_bound if the words of a rank in a round exceed the bound.
  void compare(double sent, double received);
  void add_phase(std::size_t phase, double received);
};

/// Returns a row without words.
sparse_row row_of(const sparse_options& options, const std::string& algorithm, const sparse_variant& how);

void report_rows(const sparse_options& options, const std::vector<sparse_row>& rows, reporter& out);

}  // namespace lsched::bench
