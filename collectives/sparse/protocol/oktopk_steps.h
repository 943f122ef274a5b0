// The numbers of the functions that schedules of Ok-Topk call: the steps of collectives/sparse/steps/oktopk.h, and the
// copies in between.
#pragma once

#include <cstdint>

namespace lsched {

/// Functions, in the order in which a round calls them.
enum class oktopk_step : std::uint32_t {
  select,                  ///< gradient → the largest elements of the residual, one list
  count_positions,         ///< selected → counters, or boundaries, to be added up over all ranks
  set_boundaries,          ///< these sums → a number that nobody reads
  count_drift,             ///< selected → counters of regions' parts, to be added up over all ranks
  follow_drift,            ///< these sums → a number that nobody reads
  split,                   ///< selected → a list for the owner of each region
  add,                     ///< lists of all ranks, of this rank's region → their sums
  count_sums,              ///< sums, by all ranks' counters of the pass before → counters; + i: pass i
  tally = count_sums + 8,  ///< by all counters of the last pass → how many are above the threshold, and at it
  plan,                    ///< this rank's tally, by those of all ranks → how many items come from each
  shares,                  ///< tallies of all ranks → how long all shares are
  cut,                     ///< sums, by tallies of all ranks → a piece for each rank
  share,                   ///< pieces from all ranks → this rank's share of the result
  settle                   ///< shares → the update
};

constexpr std::uint32_t number_of(oktopk_step step, unsigned pass = 0) {
  return static_cast<std::uint32_t>(step) + pass;
}

}  // namespace lsched
