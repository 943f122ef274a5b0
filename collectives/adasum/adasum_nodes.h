// What the ranks of nodes do for an adaptive sum between nodes: parts of collectives, one rank's.
//
//   gather    every rank sends block b to its node's owner of it, which makes the mean of what the node has: the sum in
//             the order of ranks, divided by their number
//   exchange  the owners of a block combine it (adasum_exchange.h)
//   spread    every owner sends its block of the result to all others of its node
//
// A node's owners are its ranks from some place on, as many as there are blocks.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/adasum/adasum_exchange.h"
#include "collectives/algorithm/nodes.h"

namespace lsched {

/// Which ranks of a node are owners: of block b the one at place first + b.
struct owner_places {
  std::size_t first = 0;
  std::size_t count = 1;
  bool holds(std::size_t place) const { return place >= first && place - first < count; }
};

class adasum_nodes {
 public:
  /// `input` or `output` is k_no_buffer where this rank has none, and is then not touched.
  adasum_nodes(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry, owner_places owners);

  bool is_owner() const { return owners_.holds(own_.place); }

  /// The mean of an owner's block; of a node of one rank, its contribution as it is. Elements of no tensor are those of
  /// the node's first rank.
  void gather();
  /// Of what has been gathered, or else of what owners brought.
  void exchange();
  void spread();
  /// Without an exchange: a contribution that needed no mean, in the output.
  void keep();

  fragment finish() { return ops_.finish(true); }

 private:
  const node& here() const { return nodes_[own_.number]; }
  rank owner_of(std::size_t block) const { return here()[owners_.first + block]; }
  stretch block_of(adasum_vector::place where, std::size_t block) const;
  void take_mean(std::size_t block);
  ownership owned() const;

  const std::vector<node> nodes_;
  const node_place own_;
  const owner_places owners_;
  const tensor_map map_;
  ordered_ops ops_;
  adasum_vector vector_;
  adasum_vector::place now_;  ///< where an owner has its block
  op_id gathered_ = k_no_op;  ///< of a block without tensors: what waits for the whole node
};

}  // namespace lsched
