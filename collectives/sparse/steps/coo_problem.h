// The parameters of a sum of sparse vectors that users provide, and the capacities of its lists. Ranks differ only in
// `place` and `has_dense`.
//
// Every rank contributes items, in any order. An item has an index and a value. A rank may repeat an index (COO:
// "coordinates"). For each index that any rank has contributed, every rank receives the sum of all values with that
// index. The indices of the result ascend without duplicates, and sums of zero are included. No item is left out or
// kept for a later round.
//
// The vector is cut into P regions, and rank r owns region r. The user's indices are u64. Indices in messages are u32,
// and count from the first element of their region. The regions affect memory, but not the result:
//
//   equal      no communication; an owner allocates memory for all items that its region may have, P * room items
//   balanced   samples of all ranks' indices determine the regions, in each round; about 2 * room items per owner
//
// Samples: every rank samples each step-th of its distinct indices, in ascending order. The step is chosen so that a
// rank has at most 2 P samples. All ranks receive all samples, sort them, and cut the sorted samples into P parts of
// equal size. If m samples of a rank are in a region, fewer than (m + 1) * step indices of the rank are in the region.
// A region has a P-th of the samples of all ranks, and at most P - 1 more samples that have the same index as its first
// sample.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "libsched/schedule/geometry.h"
#include "ops/status.h"

namespace lsched {

struct coo_problem {
  std::uint64_t count = 0;        ///< length of the vector, up to P * 2^32, or 2^32 if balanced; not allocated
  std::uint64_t room = 0;         ///< maximum number of items that a rank contributes
  std::uint64_t result_room = 0;  ///< maximum number of items of the result
  world place{};
  dtype type = dtype::f32;  ///< floating type of the values
  bool is_balanced = false;
  bool has_dense = false;  ///< this rank wants the result as a vector, too; ranks may differ

  constexpr std::uint64_t ranks() const { return static_cast<std::uint64_t>(place.size); }
};

/// Returns the reason if the problem, `place` included, is not valid.
std::optional<failure> validate(const coo_problem& problem);

/// Returns the regions of equal size.
constexpr cut equal_regions(const coo_problem& problem) { return {problem.count, problem.ranks()}; }

// A list must have a capacity of at least one item (list_layout).

/// Returns the maximum number of distinct indices that a rank contributes.
constexpr std::uint64_t taken_room(const coo_problem& problem) {
  return std::max<std::uint64_t>(1, std::min(problem.room, problem.count));
}
/// Returns the maximum number of distinct indices that a rank contributes to one region.
constexpr std::uint64_t part_room(const coo_problem& problem) {
  const std::uint64_t widest = problem.is_balanced ? problem.count : equal_regions(problem).size(0);
  return std::max<std::uint64_t>(1, std::min(problem.room, widest));
}

/// Return the maximum number of samples of a rank, and the number of distinct indices from one sample to the next.
constexpr std::uint64_t sample_room(const coo_problem& problem) { return 2 * problem.ranks(); }
constexpr std::uint64_t sample_step(const coo_problem& problem) {
  return (taken_room(problem) + sample_room(problem) - 1) / sample_room(problem);
}

/// Returns the maximum number of items that all ranks together contribute to one region.
constexpr std::uint64_t received_room(const coo_problem& problem) {
  const auto ranks = problem.ranks();
  const std::uint64_t all = part_room(problem) * ranks;  // below 2^63
  const std::uint64_t step = sample_step(problem);
  return problem.is_balanced ? std::min(all, (sample_room(problem) + ranks - 1) * step + ranks * (step - 1)) : all;
}

/// Return the maximum number of items of the result, in one region and in all regions.
constexpr std::uint64_t sum_room(const coo_problem& problem) {
  const std::uint64_t widest = problem.is_balanced ? problem.count : equal_regions(problem).size(0);
  return std::max<std::uint64_t>(1, std::min({problem.result_room, widest, received_room(problem)}));
}
constexpr std::uint64_t gathered_room(const coo_problem& problem) {
  return std::max<std::uint64_t>(1, std::min(problem.result_room, sum_room(problem) * problem.ranks()));
}

}  // namespace lsched
