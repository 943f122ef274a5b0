// The numbers of the functions that the schedule of a sum of users' sparse vectors calls, in the order in which a round
// calls them: the steps of coo.h.
#pragma once

#include <cstdint>

namespace lsched {

enum class coo_step : std::uint32_t {
  see_indices,   ///< the user's indices, and …
  see_values,    ///< … values, of which functions note where they are → a number that nobody reads
  sample,        ///< how many they are → samples of their indices; where regions are balanced
  take,          ///< how many they are, and perhaps all ranks' samples → a list for the owner of each region
  sum,           ///< lists of all ranks, of this rank's region → their sum
  tally,         ///< the sum → how many items that is, and what was wrong with what this rank has brought
  plan,          ///< this rank's tally, by those of all ranks → how many items come from each, if the round is good
  keep,          ///< the sum, by all tallies → the same, or nothing if the round is not
  give_indices,  ///< the sums of all regions → the user's indices, …
  give_values,   ///< … values, …
  give_count,    ///< … how many they are, …
  give_dense     ///< … and the vector
};

/// Words of a tally.
inline constexpr std::uint64_t k_coo_tally = 2;

}  // namespace lsched
