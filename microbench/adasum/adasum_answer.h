// The contributions of ranks to `lsched bench adasum`, and the expected results. The results are computed in double,
// without the library's arithmetic. Vectors are combined in the order of the tree that the algorithm declares
// (docs/reference/adasum.md).
//
// Contributions are small integers that repeat after k_cycle elements. In a third of the elements, the vectors of all
// ranks are parallel but have different lengths. In all other elements each rank also adds a value that no other rank
// has. So the adaptive sum of a tensor equals neither the sum nor the mean of the contributions, and depends on the
// order of the ranks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "bindings/c/lsched.h"

namespace lsched::bench {

inline constexpr std::size_t k_cycle = 30;

/// One period of a vector: element i of the vector is cycle[i % k_cycle].
using cycle = std::array<double, k_cycle>;

/// Returns the contribution of a rank. The elements are small integers, so that sums of floats are exact.
cycle contribution_of(int rank);

/// The ranks of each node, with nodes in the order of their first ranks.
using node_ranks = std::vector<std::vector<int>>;

cycle sum_of(int ranks);

/// Returns the adaptive sum of a tensor. `mode` is the name of the algorithm: "linear…" combines one rank after the
/// other, "two_level…" combines the means of the nodes by pairs, and all other names combine the ranks by pairs.
cycle adaptive_sum_of(std::string_view mode, const node_ranks& nodes, const lsched_tensor& tensor);

/// Returns the tolerance for f32 results. The tolerance covers the rounding errors of all combinations, and of the sums
/// within nodes.
double tolerance_of(int ranks);

}  // namespace lsched::bench
