// When each rank called for the rounds of a partial schedule, side by side: who everybody is waiting for.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "microbench/harness.h"

namespace lsched::bench {

struct arrivals {
  std::uint64_t in_time = 0;
  std::uint64_t late = 0;
  std::uint64_t uncalled = 0;
  /// From this rank's gate to its call; negative: the call came first. The mean is of rounds whose times are kept, the
  /// median of all, unless the middle one has not been called for, or its time is not kept.
  std::optional<double> lateness_ms, lateness_ms_median;
  double completion_ms = 0;  ///< from the gate to the end of the round, mean
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_saved = 0;
};

/// For the median: bins are powers of two, and in each of them values are taken to be spread evenly.
arrivals arrivals_of(const lsched_partial_stats& stats);

/// Every rank's, by rank. Collective.
std::vector<arrivals> gather(team& ranks, const arrivals& mine);

nlohmann::json json_of(const std::vector<arrivals>& of_ranks);

/// A row for each rank.
void add_rows(table& to, const std::string& policy, const std::vector<arrivals>& of_ranks);
table arrivals_table();

}  // namespace lsched::bench
