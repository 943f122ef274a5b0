// Groups ranks by node (shape::nodes), and finds the place (the index) of a rank within its node.
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/algorithm/shape.h"

namespace lsched {

using node = std::vector<rank>;  ///< ranks of the node, ascending

/// Returns the nodes in the order of their first ranks. If the shape has no nodes, all ranks are one node.
std::vector<node> nodes_of(const shape& data, rank size);

/// Returns true if there are several ranks and all of them share a node.
bool is_one_node(const shape& data, rank size);

/// Returns the number of ranks of the smallest node. Every node has ranks at all places below this number.
std::size_t ranks_of_smallest(const std::vector<node>& nodes);

/// The index of a rank's node, and the index of the rank within its node.
struct node_place {
  std::size_t number = 0;
  std::size_t place = 0;
};
node_place place_of(const std::vector<node>& nodes, rank self);

}  // namespace lsched
