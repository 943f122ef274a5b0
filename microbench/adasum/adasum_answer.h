// What ranks contribute to `lsched bench adasum`, and what must come of it: in double, vector by vector along the tree
// that the algorithm declares (docs/reference/adasum.md), with no arithmetic of the library.
//
// Contributions are small integers that go round after k_cycle elements. In a third of them all ranks are parallel,
// with unequal lengths; in the rest each has something of its own, too. So no tensor is combined to its sum, nor to its
// mean, and the order of ranks makes a difference.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "bindings/c/lsched.h"

namespace lsched::bench {

inline constexpr std::size_t k_cycle = 30;

/// One of each element that differs from the others.
using cycle = std::array<double, k_cycle>;

/// Element i of rank r's vector is its element i % k_cycle. Small integers, so that sums of floats are exact.
cycle contribution_of(int rank);

/// Whom an adaptive sum combines: the ranks of each node, nodes in the order of their first ranks.
using node_ranks = std::vector<std::vector<int>>;

/// All of them added up.
cycle sum_of(int ranks);

/// The adaptive sum of a tensor, by an algorithm whose name begins with "linear", "two_level" or anything else.
cycle adaptive_sum_of(std::string_view mode, const node_ranks& nodes, const lsched_tensor& tensor);

/// How far an f32 may be from that: roundings of each combination, and of the sum of a node.
double tolerance_of(int ranks);

}  // namespace lsched::bench
