// Trials of training loops in which some ranks die, also while the others shrink and carry. At the end each survivor
// has received every contribution of every survivor exactly once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/base.h"

namespace lsched::testing {

/// The parameters of a trial. Everything else is drawn from the seed.
struct shrink_trial {
  std::uint64_t seed;
  const char* activation;
  rank ranks = 8;
  int kills = 1;
  std::uint64_t count = 64;        ///< elements
  bool divides = false;            ///< results are divided by the number of ranks
  bool has_views = false;          ///< results are read in place
  bool averages = false;           ///< model_sync every few steps; contributions are not counted then
  int schedules = 1;               ///< schedules that are in flight together and are carried one after the other
  bool kills_in_recovery = false;  ///< all deaths after the first death are in a recovery
  std::int64_t steps = 200;
};

struct shrink_result {
  std::string complaints;
  std::vector<double> gaps_ms;  ///< per death: time until the last survivor had a result of the new world
  int deaths = 0;
  int deaths_in_recovery = 0;  ///< deaths that kills_in_recovery has caused
  int repeated_rounds = 0;     ///< rounds that a dead rank had ended with another sum, and that the survivors repeated
};

/// Runs a trial with processes as ranks.
shrink_result run_shrink_trial(const shrink_trial& what);

}  // namespace lsched::testing
