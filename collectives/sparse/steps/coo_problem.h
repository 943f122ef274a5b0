// The parameters of a sum of sparse vectors that users provide, and the room that it takes. Ranks differ only in
// `place` and `has_dense`.
//
// Every rank brings items, which have an index and a value each, in any order. A rank may repeat an index (COO:
// "coordinates"). Every rank gets, for each index that any rank has given, the sum of all its values. The indices of
// the result ascend without duplicates, and sums of zero are included. No item is left out or kept for a later round.
//
// The vector is cut into P regions, and rank r owns region r. The user's indices are u64. Indices in messages are u32,
// and count from the first element of their region. The regions affect memory, but not the result:
//
//   equal      no communication; an owner has room for all items that ranks may bring for its region, P * room items
//   balanced   by samples of the indices of all ranks, in each round; an owner never has more than about 2 * room items
//
// Samples: every rank takes each step-th of its indices, in order, where the step gives at most 2 P samples. All ranks
// get all samples, and cut them into P parts of equal size. If m samples of a rank are in a region, less than (m + 1)
// step items of the rank are in the region. A region has a P-th of the samples of all ranks, and at most P - 1 more
// samples that have the same index as its first sample.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "libsched/schedule/geometry.h"
#include "ops/status.h"

namespace lsched {

struct coo_problem {
  std::uint64_t count = 0;        ///< elements of the vector, up to P * 2^32, or 2^32 if balanced; they take no memory
  std::uint64_t room = 0;         ///< most items that a rank brings
  std::uint64_t result_room = 0;  ///< most items of the result
  world place{};
  dtype type = dtype::f32;  ///< of values; floating
  bool is_balanced = false;
  bool has_dense = false;  ///< this rank wants the result as a vector, too; ranks may differ

  constexpr std::uint64_t ranks() const { return static_cast<std::uint64_t>(place.size); }
};

/// Returns the reason if the problem, or this rank's place in it, is not valid.
std::optional<failure> validate(const coo_problem& problem);

/// Returns the regions of equal size.
constexpr cut equal_regions(const coo_problem& problem) { return {problem.count, problem.ranks()}; }

// Lists must have room for at least one item (list_layout).

/// Returns the most items that a rank brings, counting each index once.
constexpr std::uint64_t taken_room(const coo_problem& problem) {
  return std::max<std::uint64_t>(1, std::min(problem.room, problem.count));
}
/// Returns the most of these items in one region.
constexpr std::uint64_t part_room(const coo_problem& problem) {
  const std::uint64_t widest = problem.is_balanced ? problem.count : equal_regions(problem).size(0);
  return std::max<std::uint64_t>(1, std::min(problem.room, widest));
}

/// Return the most samples of a rank, and the number of items from a sample to the next.
constexpr std::uint64_t sample_room(const coo_problem& problem) { return 2 * problem.ranks(); }
constexpr std::uint64_t sample_step(const coo_problem& problem) {
  return (taken_room(problem) + sample_room(problem) - 1) / sample_room(problem);
}

/// Returns the most items that all ranks together bring for one region.
constexpr std::uint64_t received_room(const coo_problem& problem) {
  const auto ranks = problem.ranks();
  const std::uint64_t all = part_room(problem) * ranks;  // below 2^63
  const std::uint64_t step = sample_step(problem);
  return problem.is_balanced ? std::min(all, (sample_room(problem) + ranks - 1) * step + ranks * (step - 1)) : all;
}

/// Return the most items of the result, in one region and in all regions.
constexpr std::uint64_t sum_room(const coo_problem& problem) {
  const std::uint64_t widest = problem.is_balanced ? problem.count : equal_regions(problem).size(0);
  return std::max<std::uint64_t>(1, std::min({problem.result_room, widest, received_room(problem)}));
}
constexpr std::uint64_t gathered_room(const coo_problem& problem) {
  return std::max<std::uint64_t>(1, std::min(problem.result_room, sum_room(problem) * problem.ranks()));
}

}  // namespace lsched
