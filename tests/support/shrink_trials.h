// Trials of training loops in which some ranks die. The survivors form a smaller world (lsched_shrink) and move their
// schedules into this world (lsched_carry). Further ranks may die meanwhile. At the end each survivor must have
// received every contribution of every survivor exactly once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/base.h"

namespace lsched::testing {

/// The parameters of a trial. The seed determines everything else.
struct shrink_trial {
  std::uint64_t seed;
  const char* activation;
  rank ranks = 8;
  int kills = 1;
  std::uint64_t count = 64;  ///< number of elements of a contribution
  bool divides = false;      ///< whether results are divided by the number of ranks
  bool has_views = false;    ///< whether results are read in place
  bool averages = false;     ///< whether the ranks call model_sync every few steps; contributions are then not counted
  int schedules = 1;  ///< number of schedules that are in flight together; lsched_carry moves these one after the other
  bool kills_in_recovery = false;  ///< whether all deaths except the first happen during a recovery
  std::int64_t steps = 200;
  int ranks_per_host = 0;  ///< number of ranks per emulated host (the transport net connects the hosts); 0: all ranks
                           ///< share memory
};

struct shrink_result {
  std::string complaints;
  std::vector<double> gaps_ms;  ///< time from each death until the last survivor had a result of the new world
  int deaths = 0;
  int deaths_in_recovery = 0;  ///< number of deaths during a recovery, caused by `kills_in_recovery`
  int repeated_rounds = 0;     ///< number of rounds that a dead rank had ended with one sum, and that the survivors
                               ///< repeated with another sum
};

/// Runs a trial with processes as ranks.
shrink_result run_shrink_trial(const shrink_trial& what);

}  // namespace lsched::testing
