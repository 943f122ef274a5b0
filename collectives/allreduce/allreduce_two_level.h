// Allreduce by nodes: what can be done inside a node is done there, and ranks of a node share the work between nodes
// (Bienz, Olson and Gropp, "Node-aware improvements to allreduce", 2019; MPICH's and Open MPI's hierarchical
// allreduces).
//
//   gather    the vector has m blocks, m the ranks of the smallest node; every rank sends block b to the b-th rank of
//             its node, which combines what the node has of it
//   exchange  the b-th ranks of all nodes do an allreduce of their block by recursive multiplying
//   spread    the b-th rank sends the result of block b to all others of its node
//
// A node sends and receives about log_k N vectors for N nodes, not one for every rank, and m ranks share that; inside a
// node it is `direct`. Any partition of the ranks into nodes (shape::nodes), neighbours or not: the kernel must
// commute. Every block is combined by one expression: the same bits on all ranks.
#pragma once

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// Appends an allreduce of `data.count` elements from `input` to `output`.
fragment add_allreduce_two_level(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);

extern const algorithm k_allreduce_two_level;

}  // namespace lsched
