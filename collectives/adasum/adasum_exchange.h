// Adasum between nodes, by recursive vector halving and distance doubling, for any number of nodes by a fold (Maleki
// and others, "Scaling distributed training with adaptive summation", MLSys 2021, Algorithm 1).
//
// Of every node some ranks take part, each the owner of a block of the vector: as many blocks as owners. The owners of
// one block, one on each node, are peers:
//
//   fold       a proxy and its extra exchange halves of the block, each combines one, the extra hands its half over
//   halve      step j: peers across dimension j exchange halves of what they hold and combine the half they keep
//   double     the same steps backwards: partners exchange the finished parts
//   unfold     a proxy sends the result to its extra
//
// What moves is what an allreduce moves (rabenseifner, allreduce/halving.cc). But a tensor is combined by the dot
// product and the norms of all of it, and after step j the two vectors that are combined are scattered over the 2^(j+1)
// nodes of a subcube, and in each of them over its owners. Each takes the sums of its own part; peers add them up by
// exchanges across dimension j, j-1, …, 0, and then the owners on a node those of their blocks, each sending its own to
// those who combine a part of the tensor. Across dimension i go only the tensors that neither of the two halves holds
// all of: three at most, 24 bytes each. Two owners have at most one tensor in common. A fused vector of many small
// tensors thus costs hardly more than one of one.
//
// All who combine a part of a tensor add in the same order up to exchanged operands, so they have the same bits and the
// same coefficients; every element of the result is computed once. Nodes are combined as hypercube_tree says.
#pragma once

#include <utility>
#include <vector>

#include "collectives/adasum/adasum_part.h"
#include "libsched/postcondition/postcondition.h"
#include "libsched/schedule/geometry.h"

namespace lsched {

/// Where the parts of the vector begin, those of all blocks one after the other, and the end: `owners` blocks, each of
/// as many parts as the core of so many nodes has.
std::vector<std::uint64_t> part_begins(const shape& data, rank nodes, rank owners);

/// Which owner a rank is.
struct ownership {
  rank block = 0;
  rank node = 0;               ///< its place among the peers
  std::vector<rank> peers{};   ///< the block's owner on each node
  std::vector<rank> owners{};  ///< on this node, of each block
};

/// The ops of one owner while they are being written.
class adasum_exchange {
 public:
  /// The map has part_begins. `part` outlives the object.
  adasum_exchange(adasum_part& part, ownership own);

  /// The adaptive sum of what the peers have in `source`, in every peer's output. Nothing is sent before `after`.
  void write(adasum_part::place source, op_id after = k_no_op);

 private:
  using place = adasum_part::place;
  /// One exchange of sums: this rank has those of `own`, half of `both`, and the partner those of the other half.
  struct sums_exchange {
    rank partner = 0;  ///< its node
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
  op_id received_ = k_no_op;  ///< the half that came last
};

/// The first tag that its messages leave free.
std::uint32_t tags_of_exchange(rank nodes);

/// What it takes all owners of so many nodes.
cost cost_of_exchange(rank nodes, rank owners, const shape& data);

}  // namespace lsched
