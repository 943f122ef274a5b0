// Adaptive sums. The comment at the top of each source file describes its algorithm.
#pragma once

#include "collectives/algorithm/algorithm.h"

namespace lsched {

extern const algorithm k_adasum_doubling, k_adasum_halving, k_adasum_two_level;

}  // namespace lsched
