// The parameters of a sum of sparse vectors in coordinate format (COO) that users provide, and the capacities of its
// lists. Ranks may differ only in `place` and `has_dense`.
//
// Every rank contributes items, which have an index and a value, in any order. A rank may repeat an index. For each
// index that any rank has contributed, every rank receives the sum of all values with that index. The indices of the
// result are ascending without duplicates, and sums of zero are included.
//
// The vector is cut into P regions, and rank r owns region r. The user's indices are u64. Indices in messages are u32,
// relative to the first element of the region. The choice of regions affects memory, but not the result:
//
//   equal      fixed regions of equal size; an owner may receive P * room items
//   balanced   samples of all ranks' indices determine the regions; an owner may receive about 2 * room items
//
// Samples: every rank samples its distinct indices, in ascending order, with a distance `step` that gives at most 2 P
// samples. All ranks receive all samples, sort them, and cut the sorted samples into P parts of equal size. If m
// samples of a rank are in a region, fewer than (m + 1) * step of the rank's indices are in the region. A region has
// 1/P of all samples, and at most P - 1 more samples with the same index as the region's first sample.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "libsched/schedule/geometry.h"
#include "ops/status.h"

namespace lsched {

struct coo_problem {
  std::uint64_t count = 0;        ///< length of the vector, at most P * 2^32, or 2^32 if balanced
  std::uint64_t room = 0;         ///< maximum number of items that a rank contributes
  std::uint64_t result_room = 0;  ///< maximum number of items of the result
  world place{};
  dtype type = dtype::f32;  ///< floating type of the values
  bool is_balanced = false;
  bool has_dense = false;  ///< this rank also gets the result as a dense vector

  constexpr std::uint64_t ranks() const { return static_cast<std::uint64_t>(place.size); }
};

std::optional<failure> validate(const coo_problem& problem);

constexpr cut equal_regions(const coo_problem& problem) { return {problem.count, problem.ranks()}; }

// Capacities are at least 1, because list_layout requires this.

/// Returns the maximum number of distinct indices that a rank contributes.
constexpr std::uint64_t taken_room(const coo_problem& problem) {
  return std::max<std::uint64_t>(1, std::min(problem.room, problem.count));
}
/// Returns the maximum number of distinct indices that a rank contributes to one region.
constexpr std::uint64_t part_room(const coo_problem& problem) {
  const std::uint64_t widest = problem.is_balanced ? problem.count : equal_regions(problem).size(0);
  return std::max<std::uint64_t>(1, std::min(problem.room, widest));
}

/// Return the maximum number of samples of a rank, and the distance between samples, in distinct indices.
constexpr std::uint64_t sample_room(const coo_problem& problem) { return 2 * problem.ranks(); }
constexpr std::uint64_t sample_step(const coo_problem& problem) {
  return (taken_room(problem) + sample_room(problem) - 1) / sample_room(problem);
}

/// Returns the maximum number of items that all ranks together contribute to one region.
constexpr std::uint64_t received_room(const coo_problem& problem) {
  const auto ranks = problem.ranks();
  const std::uint64_t all = part_room(problem) * ranks;  // is below 2^63
  const std::uint64_t step = sample_step(problem);
  return problem.is_balanced ? std::min(all, (sample_room(problem) + ranks - 1) * step + ranks * (step - 1)) : all;
}

/// Return the maximum number of items of the result: in one region (sum_room), and in all regions.
constexpr std::uint64_t sum_room(const coo_problem& problem) {
  const std::uint64_t widest = problem.is_balanced ? problem.count : equal_regions(problem).size(0);
  return std::max<std::uint64_t>(1, std::min({problem.result_room, widest, received_room(problem)}));
}
constexpr std::uint64_t gathered_room(const coo_problem& problem) {
  return std::max<std::uint64_t>(1, std::min(problem.result_room, sum_room(problem) * problem.ranks()));
}

}  // namespace lsched
