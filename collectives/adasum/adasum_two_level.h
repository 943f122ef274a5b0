// Adasum by nodes: the mean inside a node, the adaptive sum between nodes (hierarchical Adasum: Maleki and others,
// "Scaling distributed training with adaptive summation", arXiv:2006.02924, section 4.2.2).
//
// The vector has m blocks, m the ranks of the smallest node, each with an owner on every node. Owners take the mean of
// what their node has of their block, those of one block combine it between nodes, and they spread the result
// (adasum_nodes.h). A node sends and receives about two vectors, and m ranks share that; what has to be
// multiplied and combined is the nodes', not the ranks'.
//
// Any partition of the ranks into nodes (shape::nodes), neighbours or not: a node weighs as much as another, however
// many ranks it has. With one node the result is the mean, and the schedule's name says so. Never chosen by "auto",
// since its results are other results: parallel to the mean inside a node, where the others would add what is
// orthogonal.
#pragma once

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// Appends the adaptive sum of the nodes' means, of `data.count` elements, from `input` to `output`.
fragment add_adasum_two_level(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);

extern const algorithm k_adasum_two_level;

}  // namespace lsched
