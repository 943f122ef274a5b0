// The numbers of the functions that TopkA's schedule calls, in the order in which a round calls them.
#pragma once

#include <cstdint>

namespace lsched {

enum class topka_step : std::uint32_t {
  select,  ///< gradient → what this rank sends, one list
  settle   ///< the lists of all ranks → the update
};

}  // namespace lsched
