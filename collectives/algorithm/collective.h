// What there is to ask for: each collective by name, what its buffers are, and what it promises.
//
// With n = count, or counts[r] for the forms that end in v and reduce_scatter; P ranks; root's part in brackets:
//
//   collective            input                   output                            in place
//   allreduce             n                       n, reduced over all               same memory
//   reduce                n                       [n, reduced over all]             [same memory]
//   scan, exscan          n                       n, reduced over ranks 0 … r (r-1) same memory
//   reduce_scatter_block  P * n                   n, block r reduced over all       output is the input's beginning
//   reduce_scatter        all blocks              counts[r], likewise               output is the input's beginning
//   bcast                 [n]                     n at all others                   one buffer anyway
//   gather, gatherv       n                       [all blocks]                      [input is block root of the output]
//   scatter, scatterv     [all blocks]            n                                 [output is block root of the input]
//   allgather(v)          n                       all blocks                        input is block r of the output
//   alltoall              P * n, block s for s    P * n, block s from s             same memory
//   alltoallv             blocks to all ranks     blocks from all ranks             no
//   neighbor_exchange     blocks to some ranks    blocks from some ranks            no
//   adasum                n                       n, adaptive sum over all          same memory
//   node_mean             n                       [n, mean over the owner's node]   same memory
//   node_adasum           [n]                     n, adaptive sum over all owners   same memory
//   barrier               -                       -                                 -
//
// adasum is not associative: which ranks it combines first is its algorithm's to say (docs/reference/adasum.md). Of
// elements in no tensor, outputs hold some rank's. exscan leaves rank 0's output alone. Where nodes have owners, one
// each, the root is the owner's place on its node. partial_allreduce, partial_allgather and
// partial_reduce_scatter_block are as those behind an activation (compose.h), and never in place.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "collectives/algorithm/shape.h"
#include "libsched/postcondition/aliasing.h"
#include "libsched/postcondition/postcondition.h"

namespace lsched {

/// What a rank's input or output consists of, and which ranks have it.
enum class content : std::uint8_t { nothing, vector, own_block, all_blocks, listed_blocks };
enum class holder : std::uint8_t { everybody, root, all_but_root, owner_of_node };
struct rank_buffer {
  content of = content::nothing;
  holder at = holder::everybody;
};

struct collective {
  std::string_view name;
  rank_buffer input, output;
  /// What outputs hold, of any algorithm, without a cost.
  postcondition (*promise)(const collective& of, rank size, const shape& data);

  bool moves_data = true;    ///< false: the shape must be empty
  bool reduces = false;      ///< the shape says how contributions combine
  bool is_rooted = false;    ///< the shape has a root
  bool has_counts = false;   ///< the shape has one count per rank
  bool has_blocks = false;   ///< the shape has a list of blocks
  bool has_buckets = false;  ///< the shape may say how the vector is cut into buckets
  /// Floating types only; the shape may say which tensors the vector holds. If it reduces, too, it says how a rank's
  /// late contributions become one: by kernel::adasum or by sum.
  bool adapts = false;
  bool has_owners = false;        ///< the root is the place, inside every node, of that node's owner (nodes.h)
  bool has_means = false;         ///< the shape may ask for means in place of sums
  bool activates = false;         ///< an activation policy is required; false: it is refused
  bool is_synchronising = false;  ///< no rank's round ends before every rank has entered it

  extents extents_of(world place, const shape& data) const;
  postcondition contents_of(rank size, const shape& data) const { return promise(*this, size, data); }
  /// In place, the input's first element is the output's element of this number; below zero, the output's first is the
  /// input's -number-th.
  std::int64_t aliasing_of(world place, const shape& data) const;
};

/// Where each rank's input and output lie in one memory; in none if the shape does not say in place.
aliasing aliasing_of(const collective& of, rank size, const shape& data);

/// All of them.
std::span<const collective* const> collectives();

/// Exactly this one, or nullptr.
const collective* find_collective(std::string_view name);

extern const collective k_adasum, k_allreduce, k_partial_adasum, k_partial_allgather, k_partial_allreduce,
    k_partial_reduce_scatter_block, k_reduce, k_scan, k_exscan, k_reduce_scatter, k_reduce_scatter_block, k_bcast,
    k_gather, k_gatherv, k_scatter, k_scatterv, k_allgather, k_allgatherv, k_alltoall, k_alltoallv, k_neighbor_exchange,
    k_barrier, k_node_mean, k_node_adasum;

}  // namespace lsched
