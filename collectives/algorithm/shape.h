// All that a generator is told about data.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/adasum/tensor.h"
#include "ops/kernel.h"

namespace lsched {

/// Widening, of a number that is not negative.
constexpr std::uint64_t wide(rank value) { return static_cast<std::uint64_t>(value); }

/// One block of an exchange in which every pair of ranks has its own count. `from == to` is a local copy.
struct exchanged_block {
  rank from = 0;
  rank to = 0;
  std::uint64_t count = 0;
  friend bool operator==(const exchanged_block&, const exchanged_block&) = default;
};

/// What `count` counts depends on the collective (collective.h): the whole vector, or one block of it.
struct shape {
  std::uint64_t count = 0;  ///< elements; 0 is a count like any other
  dtype type = dtype::f32;
  kernel what = kernel::none;  ///< how contributions combine; none where nothing is combined
  bool in_place = false;       ///< at run time, input and output will be the same memory
  rank root = 0;               ///< of collectives that have one

  /// Blocks of unequal size: elements of each rank's block; `count` is not looked at. Empty: blocks of `count`.
  std::vector<std::uint64_t> counts{};
  /// Buckets: parts of the vector, one after the other, that are computed each by itself. They add up to `count`.
  /// Empty: the vector is one.
  std::vector<std::uint64_t> buckets{};
  /// Adaptive sums: the tensors in the vector, ascending and disjoint; some may be empty, and there may be gaps. Empty:
  /// the vector is one.
  std::vector<tensor> tensors{};
  /// Exchanges: the blocks of all ranks, or at least those that this rank sends or receives. A rank's input holds what
  /// it sends and its output what it receives, one block after the other in the order of this list.
  std::vector<exchanged_block> blocks{};

  /// Blocks of which only who has them knows the lengths, and those in each round anew: up to so many elements each.
  /// Generators see one element a block, which is a list; `count` is a typical length, for models of time. 0: no lists.
  std::uint64_t room = 0;

  /// Of kernel::user: elements that belong together. All counts are multiples of it, and nothing is cut inside.
  std::uint64_t unit = 1;
  bool commutes = false;  ///< of kernel::user: operands may change places; all other kernels commute anyway

  bool is_mean = false;  ///< sums are divided by the number of ranks, once, when they are complete

  std::uint64_t segment = 0;  ///< elements that a pipelined algorithm moves at once; 0: its own choice
  rank radix = 0;             ///< of trees and multiplying steps; 0: the algorithm's own
  /// By rank, any number that ranks of one node share, for algorithms that go by nodes. Empty: one node.
  std::vector<rank> nodes{};
  /// Peers can read input and output where they are. Otherwise an algorithm that knows better stages what it sends in
  /// scratch memory, which they can. Ranks need not agree: messages are the same.
  bool is_visible = true;

  friend bool operator==(const shape&, const shape&) = default;
};

/// Elements of rank r's block.
inline std::uint64_t block_count(const shape& data, rank r) {
  return data.counts.empty() ? data.count : data.counts[static_cast<std::size_t>(r)];
}

/// The same request counted in units, or in lists: what generators see, so that they need not know that there are any.
/// Counts are multiples of the unit; a segment is rounded down, but not to nothing.
shape in_units(const shape& data);

/// The room of lists whose length nobody bounds: more than a message can be expected to have, and as much as buffers of
/// thousands of lists can be said to have.
inline constexpr std::uint64_t k_any_room = std::uint64_t{1} << 32;

/// Those that are not empty; one if the vector is one.
std::vector<tensor> tensors_of(const shape& data);

/// Where the blocks of `size` ranks begin, one after the other, and as a last entry where all of them end.
std::vector<std::uint64_t> block_offsets(const shape& data, rank size);

}  // namespace lsched
