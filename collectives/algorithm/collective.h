// The collectives, each with its name, buffers and postcondition.
//
// P is the number of ranks, and n is `count`, or counts[r] for reduce_scatter and for the variants that end in v.
// Buffers in brackets exist only at the root.
//
//   collective            input                   output                            in place
//   allreduce             n                       n, reduced over all               same memory
//   reduce                n                       [n, reduced over all]             [same memory]
//   scan, exscan          n                       n, reduced over ranks 0 … r (r-1) same memory
//   reduce_scatter_block  P * n                   n, block r reduced over all       output at start of input
//   reduce_scatter        all blocks              counts[r], block r reduced        output at start of input
//   bcast                 [n]                     n at all others                   (one buffer per rank)
//   gather, gatherv       n                       [all blocks]                      [input at block root of output]
//   scatter, scatterv     [all blocks]            n                                 [output at block root of input]
//   allgather(v)          n                       all blocks                        input at block r of the output
//   alltoall              P * n, block s for s    P * n, block s from s             same memory
//   alltoallv             blocks to all ranks     blocks from all ranks             no
//   neighbor_exchange     blocks to some ranks    blocks from some ranks            no
//   adasum                n                       n, adaptive sum over all          same memory
//   barrier               -                       -                                 -
//
// adasum is not associative, and its algorithm determines the order of combination (docs/reference/adasum.md). An
// element that is in no tensor is copied from the input of some rank. exscan does not write the output of rank 0. A
// partial collective (partial_adasum, partial_allreduce, partial_allgather or partial_reduce_scatter_block) is an
// activation (compose.h), followed by the collective without "partial_" in its name. Partial collectives never work in
// place.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "collectives/algorithm/shape.h"
#include "libsched/postcondition/aliasing.h"
#include "libsched/postcondition/postcondition.h"

namespace lsched {

/// The content of an input or output buffer, and the ranks that pass such a buffer.
enum class content : std::uint8_t { nothing, vector, own_block, all_blocks, listed_blocks };
enum class holder : std::uint8_t { everybody, root, all_but_root };
struct rank_buffer {
  content of = content::nothing;
  holder at = holder::everybody;
};

struct collective {
  std::string_view name;
  rank_buffer input, output;
  /// Returns the postcondition of the outputs, without a cost. The postcondition is equal for all algorithms.
  postcondition (*promise)(const collective& of, rank size, const shape& data);

  bool moves_data = true;    ///< if false, the shape must be empty
  bool reduces = false;      ///< the shape has a kernel that combines contributions
  bool is_rooted = false;    ///< the shape has a root
  bool has_counts = false;   ///< the shape has one count per rank
  bool has_blocks = false;   ///< the shape has a list of blocks
  bool has_buckets = false;  ///< the shape may cut the vector into buckets
  /// The collective is an adaptive sum, of floating types only. The shape may list the tensors of the vector. If
  /// `reduces` is also set, late contributions of a rank are merged by kernel::adasum or kernel::sum.
  bool adapts = false;
  bool has_means = false;         ///< the shape may ask for means in place of sums
  bool activates = false;         ///< true: an activation policy is required; false: a policy is refused
  bool is_synchronising = false;  ///< no rank leaves a round before every rank has entered it

  extents extents_of(world place, const shape& data) const;
  postcondition contents_of(rank size, const shape& data) const { return promise(*this, size, data); }
  /// For an in-place request, returns the index of the output element at which the input begins. A negative index means
  /// that the output begins at element -index of the input.
  std::int64_t aliasing_of(world place, const shape& data) const;
};

/// Returns how input and output of each rank share memory. If the shape is not in place, no memory is shared.
aliasing aliasing_of(const collective& of, rank size, const shape& data);

std::span<const collective* const> collectives();

/// Returns the collective with exactly this name, or nullptr.
const collective* find_collective(std::string_view name);

extern const collective k_adasum, k_allreduce, k_partial_adasum, k_partial_allgather, k_partial_allreduce,
    k_partial_reduce_scatter_block, k_reduce, k_scan, k_exscan, k_reduce_scatter, k_reduce_scatter_block, k_bcast,
    k_gather, k_gatherv, k_scatter, k_scatterv, k_allgather, k_allgatherv, k_alltoall, k_alltoallv, k_neighbor_exchange,
    k_barrier;

}  // namespace lsched
