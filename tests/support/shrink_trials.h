// Trials of training loops some of whose ranks are killed: the others go on in smaller and smaller worlds, and in the
// end every contribution of a survivor has arrived exactly once, on all of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/base.h"

namespace lsched::testing {

/// What a trial is made of, all of it drawn from the seed but for these.
struct shrink_trial {
  std::uint64_t seed;
  const char* activation;
  rank ranks = 8;
  int kills = 1;
  std::uint64_t count = 64;  ///< elements
  bool divides = false;      ///< results, by the ranks that there were
  bool has_views = false;    ///< results are read where they lie
  bool averages = false;     ///< model_sync every few steps; nothing is added up then
};

struct shrink_result {
  std::string complaints;
  std::vector<double> gaps_ms;  ///< of each kill: until the last survivor had collected of a round in the new world
};

/// Of processes, each a rank.
shrink_result run_shrink_trial(const shrink_trial& what);

}  // namespace lsched::testing
