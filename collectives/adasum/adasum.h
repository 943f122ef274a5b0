// Adaptive sums, and means inside nodes. The head of each source file describes its algorithm.
#pragma once

#include "collectives/algorithm/algorithm.h"

namespace lsched {

extern const algorithm k_adasum_doubling, k_adasum_halving, k_adasum_two_level;
extern const algorithm k_node_adasum_halving, k_node_mean_direct;

}  // namespace lsched
