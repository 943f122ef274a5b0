// Which ranks share a node, as generators are told (shape::nodes), and where in it they are.
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/algorithm/shape.h"

namespace lsched {

using node = std::vector<rank>;  ///< its ranks, ascending

/// In the order of their first ranks. One, if the shape names none.
std::vector<node> nodes_of(const shape& data, rank size);

/// Whether all ranks, more than one, share a node.
bool is_one_node(const shape& data, rank size);

/// Ranks of the smallest: below that number, every node has each place.
std::size_t ranks_of_smallest(const std::vector<node>& nodes);

/// Where a rank is: which of the nodes, and which of its ranks.
struct node_place {
  std::size_t number = 0;
  std::size_t place = 0;
};
node_place place_of(const std::vector<node>& nodes, rank self);
/// The place alone, without a list of nodes.
std::size_t place_on_node(const shape& data, rank self);

/// The expression (postcondition.h) of the mean over a node: the sum in the order of its ranks, divided by
/// their number; of one rank, its contribution.
std::uint64_t mean_tree(const node& ranks, dtype type);

}  // namespace lsched
