// The algorithms whose results tests compare exactly.
#pragma once

#include <vector>

#include "collectives/registry.h"

namespace lsched::testing {

/// Returns the ordinary algorithms that move numbers, and whose integer sums are exact.
inline const std::vector<const algorithm*>& exact_algorithms() {
  static const std::vector<const algorithm*> all = [] {
    std::vector<const algorithm*> some;
    for (const algorithm& it : algorithms())
      if (it.of->moves_data && !it.of->activates && !it.of->adapts && !it.of->has_owners) some.push_back(&it);
    return some;
  }();
  return all;
}

}  // namespace lsched::testing
