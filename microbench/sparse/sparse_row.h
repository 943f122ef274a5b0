// What `lsched bench sparse` says of one algorithm, whether it was run or counted.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "collectives/sparse/steps/problem.h"

namespace lsched::bench {

/// Words are of 4 bytes, as an index or a value of f32 is. Of each number the most that any rank had in any round.
struct sparse_row {
  std::string algorithm;
  std::string policy;  ///< "strict", "defer" or "reused" of oktopk, else "-"
  std::string generator;
  std::uint64_t ranks = 0, n = 0, k = 0;
  std::uint64_t rounds = 0;
  double words_recv_max = 0, words_sent_max = 0;  ///< payload: items, or elements of the dense allreduce
  double words_mean = 0;                          ///< sent or received, of a round's busiest rank, over all rounds
  double words_meta_max = 0;                      ///< counters, lengths, bitmaps, and 4 words for each message
  double bound_words = 0;                         ///< of the published table
  std::uint64_t over_bound = 0;                   ///< how often a rank sent or received more in a round
  std::vector<double> phase_words_max{};          ///< received, phase by phase
  double us_median = 0;     ///< of a round: of the slowest rank; where counted, of all ranks one after the other
  bool is_counted = false;  ///< in one process, without messages
  std::uint64_t violations = 0;
  std::uint64_t buckets = 1;  ///< schedules that a round has
  double compute_us = 0;      ///< of us_median, arithmetic
};

nlohmann::json json_of(const sparse_row& row);

/// Of what a rank sends, and of what it receives: 6 k (P-1)/P of oktopk, 2 k (P-1) of topka, twice that of gaussiank,
/// whose lists may have 2 k items, of gtopk 4 k ceil(log2 P) for both together, of dense ones 2 n (P-1)/P; of topkdsa
/// the most that its phases come to where regions are balanced, (2 k + n)(P-1)/P.
double published_words(const std::string& algorithm, const sparse_problem& of);

}  // namespace lsched::bench
