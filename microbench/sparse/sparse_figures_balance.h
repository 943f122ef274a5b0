// What balanced regions and balanced shares save the busiest rank: Fig. 7 of the paper in words instead of seconds.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "microbench/sparse/sparse_figures.h"

namespace lsched::bench {

/// Words of 4 bytes, of the busiest rank of a round.
struct balance_row {
  std::string phase;    ///< "split": received from all; "gather": sent or received, whichever is more, pieces included
  std::string regions;  ///< "equal", "averaged", "pooled", "drift" (pooled, and followed in every round)
  std::string rule;     ///< of gather: "never" (direct), "published", "cost"; else "-"
  std::string generator;
  std::uint64_t ranks = 0, n = 0, k = 0;
  double density = 0;
  double words_first = 0;    ///< of the first round, when there are no residuals
  double words_mean = 0;     ///< over the later half of rounds
  double words_most = 0;     ///< of any round
  double counter_words = 0;  ///< of split: what the regions cost a rank in counters, a round, looks spread over rounds
  double balanced_rounds = 0;  ///< of gather: share of all rounds in which shares were made equal
  /// Words of the naive way (equal regions; or never, with these regions) to those of this one: in the first round, and
  /// by the means.
  double naive_ratio_first = 0, naive_ratio = 0;
  std::uint64_t rounds = 0;
  std::uint64_t violations = 0;  ///< rounds in which these counts and those of lockstep.h differ
};

/// Options are complete. Each world runs Ok-Topk in lockstep; of what its ranks select and keep, the words of all other
/// rules follow, since neither lists nor results depend on regions.
std::vector<balance_row> count_balance(const sparse_figures_options& options, const tell_progress& tell);

nlohmann::json json_of(const balance_row& row);

}  // namespace lsched::bench
