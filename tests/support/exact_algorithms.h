// The algorithms whose results tests compare exactly.
#pragma once

#include <vector>

#include "collectives/registry.h"

namespace lsched::testing {

/// Returns all algorithms that move data, except those of partial collectives and of adaptive sums. On integers, the
/// returned algorithms give exact results.
inline const std::vector<const algorithm*>& exact_algorithms() {
  static const std::vector<const algorithm*> all = [] {
    std::vector<const algorithm*> some;
    for (const algorithm& it : algorithms())
      if (it.of->moves_data && !it.of->activates && !it.of->adapts) some.push_back(&it);
    return some;
  }();
  return all;
}

}  // namespace lsched::testing
