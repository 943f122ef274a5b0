#pragma once

#include <cstdint>
#include <vector>

#include "ops/adasum/tensor.h"
#include "ops/kernel.h"

namespace lsched {

/// Converts a rank to 64 bits. The rank must not be negative.
constexpr std::uint64_t wide(rank value) { return static_cast<std::uint64_t>(value); }

/// A block of an exchange in which every pair of ranks has its own count. If `from` equals `to`, the block is copied
/// locally.
struct exchanged_block {
  rank from = 0;
  rank to = 0;
  std::uint64_t count = 0;
  friend bool operator==(const exchanged_block&, const exchanged_block&) = default;
};

/// The data of a request. Depending on the collective (collective.h), `count` is the length of the vector or of one
/// block.
struct shape {
  std::uint64_t count = 0;  ///< number of elements; may be 0
  dtype type = dtype::f32;
  kernel what = kernel::none;  ///< kernel that combines contributions; none: contributions are not combined
  bool in_place = false;       ///< input and output will be the same memory in every round
  rank root = 0;               ///< for collectives that have a root

  /// Number of elements of each rank's block, if blocks differ in size. If empty, every block has `count` elements.
  std::vector<std::uint64_t> counts{};
  /// Lengths of the buckets, whose sum is `count`. Buckets are consecutive parts of the vector that are computed
  /// independently. If empty, there is one bucket.
  std::vector<std::uint64_t> buckets{};
  /// For adaptive sums: the tensors of the vector, ascending and disjoint. Tensors may be empty, and gaps are allowed.
  /// If the list is empty, the vector is one tensor.
  std::vector<tensor> tensors{};
  /// For exchanges: the blocks of all ranks, or at least those that this rank sends or receives. A rank's input
  /// contains the blocks that the rank sends. A rank's output contains the blocks that the rank receives. Both buffers
  /// have the order of this list.
  std::vector<exchanged_block> blocks{};

  /// Capacity of a list, in elements, if blocks are lists. 0 if blocks are not lists. The length of a list varies from
  /// round to round, and only the rank that has the list knows its length. Generators treat a list as a block of one
  /// element. `count` is then the typical length, for time models.
  std::uint64_t room = 0;

  /// For kernel::user: number of elements of a unit, which is never split. All counts must be multiples of the unit.
  std::uint64_t unit = 1;
  bool commutes = false;  ///< for kernel::user: the reduction is commutative; all other kernels commute

  bool is_mean = false;  ///< complete sums are divided by the number of ranks

  std::uint64_t segment = 0;  ///< elements per message of a pipelined algorithm; 0: chosen by the algorithm
  rank radix = 0;             ///< radix of trees and of recursive multiplying; 0: chosen by the algorithm
  /// Node id of each rank, for algorithms that use nodes. If empty, there is one node.
  std::vector<rank> nodes{};
  /// True if peers can read input and output directly. If false, some algorithms first copy data to scratch memory,
  /// which peers can read. Ranks may have different values, because messages do not depend on this member.
  bool is_visible = true;

  friend bool operator==(const shape&, const shape&) = default;
};

/// Returns the number of elements of the block of rank r.
inline std::uint64_t block_count(const shape& data, rank r) {
  return data.counts.empty() ? data.count : data.counts[static_cast<std::size_t>(r)];
}

/// Returns the shape with counts in units or in lists. Generators receive this form, so they need no code for units and
/// lists. A `data.segment` other than 0 is converted to units: it is rounded down, but to at least 1.
shape in_units(const shape& data);

/// The capacity (shape::room) of lists whose length has no bound. This capacity exceeds every expected message, but is
/// small enough that buffers with thousands of such lists stay below k_max_count.
inline constexpr std::uint64_t k_any_room = std::uint64_t{1} << 32;

/// Returns the non-empty tensors. If the shape has no tensors, the vector is one tensor.
std::vector<tensor> tensors_of(const shape& data);

/// Returns the offset of the block of each rank, and then the end of the last block.
std::vector<std::uint64_t> block_offsets(const shape& data, rank size);

}  // namespace lsched
