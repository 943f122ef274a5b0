// Adasum between nodes, by recursive vector halving and distance doubling (Maleki and others, "Scaling distributed
// training with adaptive summation", MLSys 2021, Algorithm 1). A fold (geometry.h) extends the algorithm to any number
// of nodes.
//
// Some ranks of every node, the owners, take part. Every node has the same number of owners, and the vector is divided
// into one block for each owner of a node. The owners of the same block, one on each node, are peers. Peers execute
// these steps:
//
//   fold       a proxy and its extra swap halves of the block and combine a half each; the extra sends its half back
//   halve      step j: peers across dimension j exchange halves of their parts and combine the half that they keep
//   double     the same steps in reverse order, in which partners exchange finished parts
//   unfold     a proxy sends the result to its extra
//
// The vectors move as in an allreduce (rabenseifner, allreduce/halving.cc). But the coefficients of a tensor depend on
// the dot product and the norms ("sums") of the whole tensor. Step j combines two vectors. After the exchange of
// halves, both vectors are scattered over the 2^(j+1) nodes of a subcube, and inside each node over the owners. Each
// owner computes the sums of its own part. Peers add these sums by exchanges across dimensions j, j-1, …, 0. Then each
// owner sends the result to those owners of its node that combine a part of the tensor. These owners add the sums of
// all blocks. An exchange across dimension i contains only the sums of tensors that are not completely in one partner's
// half. These are at most three tensors, with 24 bytes each. Two owners have at most one tensor in common. So a fused
// vector of many small tensors costs hardly more than a vector of one tensor.
//
// All owners that combine a part of a tensor add the tensor's sums in the same order. Only the two operands of an
// addition may be swapped, which does not change the sum. So all these owners get the same sums, bit for bit, and the
// same coefficients. Every element of the result is computed once. Nodes are combined in the order of hypercube_tree.
#pragma once

#include <utility>
#include <vector>

#include "collectives/adasum/adasum_part.h"
#include "libsched/postcondition/postcondition.h"
#include "libsched/schedule/geometry.h"

namespace lsched {

/// Returns the offset of each part of the vector, and finally the end of the last part. The vector has `owners` blocks,
/// and each block has one part for each core node (geometry.h, fold).
std::vector<std::uint64_t> part_begins(const shape& data, rank nodes, rank owners);

struct ownership {
  rank block = 0;
  rank node = 0;               ///< index of this rank in `peers`
  std::vector<rank> peers{};   ///< owner of this block on each node
  std::vector<rank> owners{};  ///< owner of each block on this node
};

/// Writes the ops of one owner.
class adasum_exchange {
 public:
  /// The map of `part` must have the offsets that part_begins() returns. `part` must outlive this object.
  adasum_exchange(adasum_part& part, ownership own);

  /// Appends the adaptive sum of the vectors that all peers have at `source`. Every peer gets the result in its output.
  /// No message is sent before `after` completes.
  void write(adasum_part::place source, op_id after = k_no_op);

 private:
  using place = adasum_part::place;
  /// An exchange of sums: this rank has the sums of `own`, a half of `both`, and the partner has the sums of the other
  /// half.
  struct sums_exchange {
    rank partner = 0;  ///< index of the partner in `peers`
    std::uint32_t tag = 0;
    block_range both{};
    block_range own{};
  };

  rank rank_at(rank node) const { return own_.peers[static_cast<std::size_t>(node)]; }
  stretch parts_in(place where, block_range range) const;
  stretch in_output(block_range range) const { return parts_in(part_.result(), range); }

  void write_extra(place source);
  void fold_in(place source);
  void halve(place source);
  void spread();
  bool keeps_upper(int j) const { return (folded_.virtual_of(own_.node) >> j) % 2 != 0; }
  block_range held_after(int j) const;
  void combine(rank partner, std::uint32_t tag, place source, block_range held, block_range kept,
               const std::vector<sums_exchange>& exchanges, std::uint32_t blocks_tag);
  template <class Take>
  void add_sums(std::span<const tensor> tensors, const stretch& sums, block_range kept,
                const std::vector<sums_exchange>& exchanges, std::uint32_t blocks_tag, const Take& take);
  void add_nothing(const stretch& sums);
  void add_blocks(const tensor& t, const stretch& own, block_range kept, std::uint32_t tag, const stretch& into);

  adasum_part& part_;
  const ownership own_;
  const fold folded_;
  const block_range all_;
  op_id received_ = k_no_op;  ///< receive of the most recent half
};

/// Returns the number of tags that an exchange uses, from tag 0.
std::uint32_t tags_of_exchange(rank nodes);

/// Returns the cost of an exchange for all owners of `nodes` nodes.
cost cost_of_exchange(rank nodes, rank owners, const shape& data);

}  // namespace lsched
