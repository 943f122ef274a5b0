// The numbers of the functions that the schedules of TopkDSA and gTopk call, in the order in which a round calls them.
#pragma once

#include <cstdint>

namespace lsched {

enum class topk_dsa_step : std::uint32_t {
  select,  ///< gradient → a list for each region
  reduce,  ///< lists of all ranks, of this rank's region → their sum, as a block
  settle   ///< the blocks of all regions → the update
};

enum class gtopk_step : std::uint32_t {
  select,    ///< gradient → this rank's list, its first partial result
  merge,     ///< partial result and a child's → the next partial result
  learn,     ///< the parent's bitmap → a number that nobody reads
  settle,    ///< the result → the update, when survivors are told
  survivors  ///< the parent's bitmap, or the result → the bitmap for a child; + i: for child i
};

}  // namespace lsched
