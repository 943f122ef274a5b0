// What a sum of sparse vectors that users bring is asked for, as all ranks say it; and what room that takes.
//
// Every rank brings items, an index and a value each, in any order, an index as often as it likes (COO: "coordinates").
// Every rank gets, for each index that anybody has given, the sum of all its values: an index once, ascending, also if
// the sum is zero. Nothing is left out, and nothing is kept for later.
//
// The vector is cut into P regions, of which rank r owns the r-th. Users' indices are u64; those that travel are u32,
// and count from the beginning of their region. Results do not depend on where regions are; memory does:
//
//   equal      nothing need be asked; an owner has room for all that ranks may bring of its region, P * room items
//   balanced   by samples of all ranks' indices, in each round anew: nobody ever owns more than about 2 * room items
//
// Samples: every rank notes each step-th of its indices, in order, with a step such that they are 2 P at most. All
// ranks get all of them, and cut where a P-th of them is over. If m samples of a rank are in a region, less than
// (m + 1) step of its items are. Of all ranks' samples a P-th is there, and P - 1 at most that have the index of the
// first of these.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "libsched/schedule/geometry.h"
#include "ops/status.h"

namespace lsched {

struct coo_problem {
  std::uint64_t count = 0;        ///< elements of the vector, up to P * 2^32, or 2^32 if balanced; they take no memory
  std::uint64_t room = 0;         ///< items that a rank brings, at most
  std::uint64_t result_room = 0;  ///< items of the result, at most
  world place{};
  dtype type = dtype::f32;  ///< of values; floating
  bool is_balanced = false;
  bool has_dense = false;  ///< this rank wants the result as a vector, too. Its own choice

  constexpr std::uint64_t ranks() const { return static_cast<std::uint64_t>(place.size); }
};

/// Why nothing can be done for it, or for this rank of it; nothing if all is well.
std::optional<failure> validate(const coo_problem& problem);

/// Those that are equal.
constexpr cut equal_regions(const coo_problem& problem) { return {problem.count, problem.ranks()}; }

// Lists have room for an item at least (list_layout).

/// Items of what a rank brings, an index once.
constexpr std::uint64_t taken_room(const coo_problem& problem) {
  return std::max<std::uint64_t>(1, std::min(problem.room, problem.count));
}
/// Of those, the ones in one region.
constexpr std::uint64_t part_room(const coo_problem& problem) {
  const std::uint64_t widest = problem.is_balanced ? problem.count : equal_regions(problem).size(0);
  return std::max<std::uint64_t>(1, std::min(problem.room, widest));
}

/// A rank's samples, at most, and its items from one to the next.
constexpr std::uint64_t sample_room(const coo_problem& problem) { return 2 * problem.ranks(); }
constexpr std::uint64_t sample_step(const coo_problem& problem) {
  return (taken_room(problem) + sample_room(problem) - 1) / sample_room(problem);
}

/// What all ranks bring of one region.
constexpr std::uint64_t received_room(const coo_problem& problem) {
  const auto ranks = problem.ranks();
  const std::uint64_t all = part_room(problem) * ranks;  // below 2^63
  const std::uint64_t step = sample_step(problem);
  return problem.is_balanced ? std::min(all, (sample_room(problem) + ranks - 1) * step + ranks * (step - 1)) : all;
}

/// Items of the result in one region, and in all.
constexpr std::uint64_t sum_room(const coo_problem& problem) {
  const std::uint64_t widest = problem.is_balanced ? problem.count : equal_regions(problem).size(0);
  return std::max<std::uint64_t>(1, std::min({problem.result_room, widest, received_room(problem)}));
}
constexpr std::uint64_t gathered_room(const coo_problem& problem) {
  return std::max<std::uint64_t>(1, std::min(problem.result_room, sum_room(problem) * problem.ranks()));
}

}  // namespace lsched
