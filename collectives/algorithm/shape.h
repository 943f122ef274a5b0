// The description of data that a generator receives.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/adasum/tensor.h"
#include "ops/kernel.h"

namespace lsched {

/// Converts a rank, which must not be negative, to 64 bits.
constexpr std::uint64_t wide(rank value) { return static_cast<std::uint64_t>(value); }

/// One block of an exchange in which every pair of ranks has its own count. `from == to` is a local copy.
struct exchanged_block {
  rank from = 0;
  rank to = 0;
  std::uint64_t count = 0;
  friend bool operator==(const exchanged_block&, const exchanged_block&) = default;
};

/// The data of a request. Depending on the collective (collective.h), `count` is the length of the vector or of one
/// block.
struct shape {
  std::uint64_t count = 0;  ///< elements; may be 0
  dtype type = dtype::f32;
  kernel what = kernel::none;  ///< operation that combines contributions; none: nothing is combined
  bool in_place = false;       ///< input and output will be the same memory in every round
  rank root = 0;               ///< for collectives that have a root

  /// Numbers of elements of the blocks, by rank, if blocks differ in size. Replaces `count`. Empty: every block has
  /// `count` elements.
  std::vector<std::uint64_t> counts{};
  /// Buckets: consecutive parts of the vector that are computed independently. Their lengths add up to `count`. Empty:
  /// one bucket.
  std::vector<std::uint64_t> buckets{};
  /// Adaptive sums: the tensors of the vector, ascending and disjoint. Tensors may be empty, and gaps are allowed.
  /// Empty: one tensor.
  std::vector<tensor> tensors{};
  /// Exchanges: the blocks of all ranks, or at least those that this rank sends or receives. A rank's input holds the
  /// blocks that the rank sends, and its output holds the blocks that the rank receives. Both follow the order of this
  /// list.
  std::vector<exchanged_block> blocks{};

  /// Capacity of a list in elements, if blocks are lists. The length of a list differs from round to round, and only
  /// the rank that holds the list has the length. Generators treat a list as a block of one element. `count` is the
  /// typical length, for models of time. 0: no lists.
  std::uint64_t room = 0;

  /// For kernel::user: number of elements in a unit, which is never cut. All counts are multiples of the unit.
  std::uint64_t unit = 1;
  bool commutes = false;  ///< for kernel::user: operands may change places; all other kernels commute

  bool is_mean = false;  ///< complete sums are divided once by the number of ranks

  std::uint64_t segment = 0;  ///< elements in a message of a pipelined algorithm; 0: chosen by the algorithm
  rank radix = 0;             ///< radix of trees and of recursive multiplying; 0: chosen by the algorithm
  /// Number of the node of each rank, for algorithms that use nodes. Empty: one node.
  std::vector<rank> nodes{};
  /// True if peers can read input and output directly. If not, some algorithms first copy their data into scratch
  /// memory, which peers can read. Ranks may differ in this field because the field does not change the messages.
  bool is_visible = true;

  friend bool operator==(const shape&, const shape&) = default;
};

/// Returns the elements of the block of rank r.
inline std::uint64_t block_count(const shape& data, rank r) {
  return data.counts.empty() ? data.count : data.counts[static_cast<std::size_t>(r)];
}

/// Returns the request counted in units, or in lists. Generators receive this form, and thus need no code for units and
/// lists. Counts are multiples of the unit. A segment is rounded down, but is at least 1.
shape in_units(const shape& data);

/// The capacity (`room`) of lists whose length has no bound. The capacity exceeds every expected message, but buffers
/// with thousands of such lists stay below k_max_count.
inline constexpr std::uint64_t k_any_room = std::uint64_t{1} << 32;

/// Returns the tensors that are not empty. Without tensors in the shape, the vector is one tensor.
std::vector<tensor> tensors_of(const shape& data);

/// Returns the offset of the block of each of `size` ranks, and then the end of the last block.
std::vector<std::uint64_t> block_offsets(const shape& data, rank size);

}  // namespace lsched
