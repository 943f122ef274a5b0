// The contributions of ranks to `lsched bench adasum`, and the expected results. Results are computed in double, vector
// by vector along the tree that the algorithm declares (docs/reference/adasum.md), without arithmetic of the library.
//
// Contributions are small integers that repeat after k_cycle elements. In a third of the elements all ranks are
// parallel, with different lengths. In all others each rank also has a part of its own. So no tensor is combined to its
// sum or to its mean, and the order of ranks matters.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "bindings/c/lsched.h"

namespace lsched::bench {

inline constexpr std::size_t k_cycle = 30;

/// The distinct elements of a vector.
using cycle = std::array<double, k_cycle>;

/// Returns the contribution of a rank. Element i of its vector is element i % k_cycle. The elements are small integers,
/// so that sums of floats are exact.
cycle contribution_of(int rank);

/// The ranks of each node, with nodes in the order of their first ranks.
using node_ranks = std::vector<std::vector<int>>;

/// Returns the sum of all contributions.
cycle sum_of(int ranks);

/// Returns the adaptive sum of a tensor. The name of the algorithm determines the order: "linear…", "two_level…", or
/// any other name.
cycle adaptive_sum_of(std::string_view mode, const node_ranks& nodes, const lsched_tensor& tensor);

/// Returns the tolerance for f32 results: the roundings of each combination, and of the sum of a node.
double tolerance_of(int ranks);

}  // namespace lsched::bench
